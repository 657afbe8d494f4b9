#!lua flags=allow-oom
-- Counts an attempt in a sliding window and tells whether it passes. The list
-- holds the times of the newest attempts, the newest first.
--
-- KEYS  1 window
-- ARGV  1 how many may pass during a span, 2 span (ms)
-- Reply {passed} · {wait, how long from now until one would pass (ms)}
-- Edges none
local window = KEYS[1]
local most, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local call = redis.call

local newest = tonumber(call('LINDEX', window, 0) or now)
if newest > now + span then call('DEL', window) else now = math.max(now, newest) end -- the clock was set back
local oldest = tonumber(call('LINDEX', window, most - 1) or now - span)
if call('LPUSH', window, now) > most then call('LTRIM', window, 0, most - 1) end
call('PEXPIRE', window, span)
if oldest <= now - span then return {'passed'} end
return {'wait', call('LINDEX', window, most - 1) + span - now}
