#!lua flags=allow-oom
-- Moves the deadline of an owner's hold, never past the cap and never earlier.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 deadlines, 7 changes
-- ARGV  1 show, 2 owner (ORDER.n), 3 end of the view's lifetime (ms since 1970), 4 deadline (ms since 1970)
-- Reply {extended, deadline} · {refused, deadline in effect, or - without a hold}
--       {ended} · {not ready} · {foreign} · {later}
-- Edges 1→1, of the owner
local seats, owners, orders, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local deadlines, changes = KEYS[6], KEYS[7]
local show, owner, ends, want = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
if not v.fits then return {'not ready'} end
local record = read(orders, owner)
if not record or record.state ~= '1' then return {'refused', '-'} end
want = math.min(want, tonumber(record.cap) or want)
if want <= now then return {'refused', record.ends} end
if want <= (tonumber(record.ends) or -math.huge) then return {'extended', record.ends} end

local ids = {}
for _, id in ipairs(record.seats) do
  if state(seats, id) == '1' and call('HGET', owners, id) == owner then ids[#ids + 1] = id end
end
record.ends = want
write(v, orders, users, owner, record, record)
call('ZADD', deadlines, want, show .. ':' .. owner)
publish(v, meta, changes, show, 'extend', '1=' .. table.concat(ids, ','))
return {'extended', want}
