#!lua flags=allow-oom
-- Reads a whole view. Its cost grows with the house.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta
-- ARGV  1 end of the view's lifetime (ms since 1970), 2 whether orders are wanted (1 or 0), 3 whether users are
-- Reply {snapshot, generation, revision, clock (ms since 1970), states, {owner, record…}, {seat id, owner…},
--       {user, seats in effect…}} · {ended, clock} · {not ready} · {foreign} · {later}
-- Edges none
local seats, owners, orders, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ends, with_orders, with_users = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3] == '1'

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
return {'snapshot', v.generation, v.revision, now, call('GET', seats) or '',
  with_orders and call('HGETALL', orders) or {}, with_orders and call('HGETALL', owners) or {},
  with_users and call('HGETALL', users) or {}}
