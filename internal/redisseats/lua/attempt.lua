#!lua flags=allow-oom
-- Counts an attempt in a sliding window and tells whether it passes. The list
-- holds the times of the newest attempts, the newest first.
--
-- KEYS  1 window
-- ARGV  1 how many may pass, 2 in which span (ms)
-- Reply {passed} · {wait, how long from now until one would pass (ms)}
-- Edges none
local window = KEYS[1]
local most, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local call = redis.call

local newest = tonumber(call('LINDEX', window, 0) or now)
if newest > now + span then call('DEL', window) end -- the clock was set back: by much, all is forgotten,
local at = newest > now + span and now or math.max(now, newest) -- by little, it stands still
local oldest = tonumber(call('LINDEX', window, most - 1) or at - span)
local length = call('LPUSH', window, at)
if length > most then call('RPOP', window) end -- what a larger window needs is kept
if length == 1 then call('PEXPIRE', window, span) else call('PEXPIRE', window, span, 'GT') end
if oldest <= at - span then return {'passed'} end
return {'wait', call('LINDEX', window, most - 1) + span - now}
