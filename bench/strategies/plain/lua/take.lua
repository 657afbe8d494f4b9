-- Takes seats of a show, all or none: check all, take all, note the deadline.
-- KEYS[1] hash of the show, KEYS[2] sorted set of deadlines. ARGV[1] show,
-- ARGV[2] order, ARGV[3] ms until the deadline, ARGV[4…] seats.
-- Replies {deadline in ms} or {0, seats that are not free…}.
local seats, deadlines = KEYS[1], KEYS[2]
local show, order, hold = ARGV[1], ARGV[2], tonumber(ARGV[3])
local refused = {0}
for i = 4, #ARGV do
  if redis.call('HGET', seats, ARGV[i]) ~= '0' then
    refused[#refused + 1] = tonumber(ARGV[i])
  end
end
if #refused > 1 then
  return refused
end
for i = 4, #ARGV do
  redis.call('HSET', seats, ARGV[i], order)
end
local t = redis.call('TIME')
local deadline = t[1] * 1000 + math.floor(t[2] / 1000) + hold
local member = show .. ':' .. order
for i = 4, #ARGV do
  member = member .. ':' .. ARGV[i]
end
redis.call('ZADD', deadlines, deadline, member)
return {deadline}
