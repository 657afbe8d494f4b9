#!lua flags=allow-oom
-- Moves the end of a view's lifetime on.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 rate, 7 changes
-- ARGV  1 end of the view's lifetime (ms since 1970)
-- Reply {moved}, whether or not there is a view that it moved
-- Edges none
local seats, owners, orders, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local rate, changes = KEYS[6], KEYS[7]
local ends = tonumber(ARGV[1])
local call = redis.call

local known = tonumber(call('HGET', meta, 'until') or ends)
if known < ends and now < known + 3600000 then
  call('HSET', meta, 'until', ends)
  for _, name in ipairs({seats, owners, orders, users, meta, rate}) do call('PEXPIREAT', name, ends + 3600000) end
  call('PEXPIREAT', changes, ends + 3600000, 'GT')
end
return {'moved'}
