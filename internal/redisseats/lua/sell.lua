#!lua flags=allow-oom
-- Turns an owner's held seats into sold ones and ends the deadline.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 deadlines, 7 changes
-- ARGV  1 show, 2 owner (ORDER.n), 3 end of the view's lifetime (ms since 1970)
-- Reply {sold, how many of the owner's seats are sold now} · {ended} · {not ready} · {foreign} · {later}
-- Edges 1→2, 2→2 (a repeat), of the owner
local seats, owners, orders, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local deadlines, changes = KEYS[6], KEYS[7]
local show, owner, ends = ARGV[1], ARGV[2], tonumber(ARGV[3])

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
if not v.fits then return {'not ready'} end
local record, sold, ids = read(orders, owner), 0, {}
for _, id in ipairs(record and record.seats or {}) do
  local s = state(seats, id)
  if (s == '1' or s == '2') and call('HGET', owners, id) == owner then
    sold = sold + 1
    if s == '1' then ids[#ids + 1] = id end
  end
end
if #ids == 0 then return {'sold', sold} end

local old = {state = record.state, seats = record.seats, user = record.user}
record.state, record.ends = '2', '-'
write(v, orders, users, owner, old, record)
expire(v, users)
call('ZREM', deadlines, show .. ':' .. owner)
for _, id in ipairs(ids) do move(v, seats, owners, id, '1', '2', owner) end
publish(v, meta, changes, show, 'sell', '2=' .. table.concat(ids, ','))
return {'sold', sold}
