#!lua flags=allow-oom
-- Tells the name of the incarnation that this script was loaded for. That it
-- runs at all is the proof that the incarnation is still there.
--
-- KEYS  1 changes
-- ARGV  none
-- Reply {identity, its name, whether the partition has changes (1 or 0)}
-- Edges none
local changes = KEYS[1]
return {'identity', identity, redis.call('EXISTS', changes)}
