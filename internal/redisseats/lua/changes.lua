#!lua flags=allow-oom
-- Reads changes of a partition after a position, the oldest first, and tells
-- whether older ones were trimmed unread.
--
-- KEYS  1 changes
-- ARGV  1 identity of the position, or oldest, or newest, 2 how many changes had been appended at the position,
--       3 id of the last of them, 4 how many at most
-- Reply {changes, trimmed (1 or 0), how many had been appended before these, id of the last of those,
--       id, change…}: a change is SHOW GENERATION.REVISION VERB CLOCK and the seats, see common.lua
-- Edges none
local changes = KEYS[1]
local from, count, id, most = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local call = redis.call

local about, appended, kept_now, last = {}, 0, 0, '0-0'
if call('EXISTS', changes) == 1 then about = call('XINFO', 'STREAM', changes) end
for i = 1, #about, 2 do
  if about[i] == 'length' then kept_now = about[i + 1] end
  if about[i] == 'entries-added' then appended = about[i + 1] end
  if about[i] == 'last-generated-id' then last = about[i + 1] end
end
local dropped, trimmed = appended - kept_now, 0
if from == 'newest' then return {'changes', 0, appended, last} end
if from ~= identity or count < dropped or count > appended then
  trimmed = from == 'oldest' and 0 or 1
  count, id = dropped, '0-0'
end
local reply = {'changes', trimmed, count, id}
if kept_now > 0 then
  for _, entry in ipairs(call('XRANGE', changes, '(' .. id, '+', 'COUNT', most)) do
    reply[#reply + 1], reply[#reply + 2] = entry[1], entry[2][2]
  end
end
return reply
