-- Frees the seats that an order has, and forgets its deadline.
-- KEYS[1] hash of the show, KEYS[2] sorted set of deadlines. ARGV[1] show,
-- ARGV[2] order, ARGV[3…] seats. Replies how many were freed.
local seats, deadlines = KEYS[1], KEYS[2]
local show, order = ARGV[1], ARGV[2]
local freed = 0
local member = show .. ':' .. order
for i = 3, #ARGV do
  member = member .. ':' .. ARGV[i]
  if redis.call('HGET', seats, ARGV[i]) == order then
    redis.call('HSET', seats, ARGV[i], '0')
    freed = freed + 1
  end
end
redis.call('ZREM', deadlines, member)
return freed
