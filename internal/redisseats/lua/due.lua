#!lua flags=allow-oom
-- Lists wake-ups that have come, the earliest first.
--
-- KEYS  1 deadlines
-- ARGV  1 how many at most
-- Reply {due, show:ORDER.n…}
-- Edges none
local deadlines = KEYS[1]
local most = tonumber(ARGV[1])

return {'due', unpack(redis.call('ZRANGEBYSCORE', deadlines, '-inf', now, 'LIMIT', 0, most))}
