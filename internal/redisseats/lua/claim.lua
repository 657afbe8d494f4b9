#!lua flags=allow-oom
-- Claims wake-ups that are still due and pushes them on by a lease; those of
-- holds that are no more are dropped.
--
-- KEYS  1 deadlines, 2… for each show its orders and its meta
-- ARGV  1 lease (ms), 2… three for each wake-up: show:ORDER.n, owner (ORDER.n), place of the show's orders in KEYS
-- Reply {claimed, clock (ms since 1970), then for each its place among those asked (from 0), taken at and
--       deadline (ms since 1970, or -), user}
-- Edges none
local deadlines, shows = KEYS[1], KEYS
local lease, first = tonumber(ARGV[1]), 2
local call = redis.call

local reply = {'claimed', now}
for i = first, #ARGV, 3 do
  local member, owner, at = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local score = call('ZSCORE', deadlines, member)
  if score and (score == '-inf' or tonumber(score) <= now) then
    local record, ends = call('HGET', shows[at], owner), call('HGET', shows[at + 1], 'until')
    local state, taken, ending, user = string.match(record or '', '^(%S) %S+ (%S+) (%S+) %S+ %S+ (.*)$')
    if state == '1' and ends and now < ends + 3600000 then
      call('ZADD', deadlines, now + lease, member)
      for _, field in ipairs({(i - first) / 3, taken, ending, user}) do reply[#reply + 1] = field end
    else
      call('ZREM', deadlines, member)
    end
  end
end
return reply
