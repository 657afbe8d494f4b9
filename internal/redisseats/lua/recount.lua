#!lua flags=allow-oom
-- Derives records, counts and users from the seats and their owners, when a
-- repair finds that they do not fit. Its cost grows with the house.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 deadlines
-- ARGV  1 show, 2 end of the view's lifetime (ms since 1970), 3 generation
-- Reply {recounted, revision} · {stale} · {ended} · {not ready} · {foreign} · {later}
-- Edges none
local seats, owners, orders, users, meta, deadlines = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local show, ends, generation = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
if v.generation ~= generation then return {'stale'} end

local own, flat = {}, call('HGETALL', owners)
for i = 1, #flat, 2 do
  local list = own[flat[i + 1]] or {}
  list[#list + 1], own[flat[i + 1]] = flat[i], list
end
call('DEL', users)
v.orders, v.users = 0, 0
for _, owner in ipairs(call('HKEYS', orders)) do
  local record = read(orders, owner)
  record.seats = own[owner] or {}
  table.sort(record.seats, function(a, b) return tonumber(a) < tonumber(b) end)
  write(v, orders, users, owner, nil, record)
  if #record.seats == 0 then call('ZREM', deadlines, show .. ':' .. owner) end
end
local house = call('GET', seats) or ''
v.size = #house
for _, s in ipairs({'0', '1', '2', 'x', '-'}) do
  v[s] = select(2, string.gsub(house, s == '-' and '%-' or s, ''))
end
tally(v, meta)
expire(v, owners, orders, users)
return {'recounted', v.revision}
