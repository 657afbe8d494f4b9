#!lua flags=allow-oom
-- Sets seats that are still as the caller saw them; one that has changed since
-- is left alone. A seat that becomes an owner's joins the owner's record, which
-- takes over what is said of the order; a record whose last seat goes, goes.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 deadlines, 7 changes
-- ARGV  1 show, 2 end of the view's lifetime (ms since 1970), 3 generation, 4… ten for each seat: id, state
--       and owner (or nothing) as seen, state and owner wanted, and of the order taken at, deadline, cap
--       (ms since 1970, or -), key hash (or -), user
-- Reply {repaired, revision, whether the counts fit (1 or 0), how many were set, id…, id left alone…}
--       {stale}: another generation · {ended} · {not ready} · {foreign} · {later}
-- Edges any but from and to -
local seats, owners, orders, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local deadlines, changes = KEYS[6], KEYS[7]
local show, ends, generation, first = ARGV[1], tonumber(ARGV[2]), ARGV[3], 4

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
if v.generation ~= generation then return {'stale'} end
local fixes, left, met, before, after, fresh = {}, {}, {}, {}, {}, {}

-- An owner's record as it will be.
local function regard(owner)
  if not after[owner] then
    before[owner], after[owner] = read(orders, owner), read(orders, owner)
    if after[owner] then met[#met + 1] = owner end
  end
  return after[owner]
end

for i = first, #ARGV, 10 do
  local id, saw, from, want, to, taken, ending, cap, key, user = unpack(ARGV, i, i + 9)
  local is = state(seats, id)
  if is == '-' or is ~= saw or (call('HGET', owners, id) or '') ~= from then
    left[#left + 1] = id
  else
    fixes[#fixes + 1] = {id, saw, want, to}
    local record = regard(from)
    for j = record and #record.seats or 0, 1, -1 do
      if record.seats[j] == id then table.remove(record.seats, j) end
    end
    if want ~= '0' then
      local list = (regard(to) or {seats = {}}).seats
      if not after[to] then met[#met + 1] = to end
      list[#list + 1] = id
      after[to] = {state = want, seats = list, taken = taken, ends = ending, cap = cap, key = key, user = user}
      fresh[to] = true
    end
  end
end

for _, owner in ipairs(met) do
  local record, member = after[owner], show .. ':' .. owner
  table.sort(record.seats, function(a, b) return tonumber(a) < tonumber(b) end)
  write(v, orders, users, owner, before[owner], record)
  if #record.seats == 0 or fresh[owner] and record.state ~= '1' then
    call('ZREM', deadlines, member)
  elseif fresh[owner] then
    call('ZADD', deadlines, record.ends == '-' and '-inf' or record.ends, member)
  end
end
reply = {'repaired', v.revision, 0, #fixes}
local told = {}
for _, fix in ipairs(fixes) do
  local id, from, to, owner = unpack(fix)
  move(v, seats, owners, id, from, to, to ~= '0' and owner or nil)
  local sign = from == '0' and (to == '0' and '=' or '+') or (to == '0' and '-' or '=')
  told[#told + 1] = to .. sign .. id
  reply[#reply + 1] = id
end
if #fixes > 0 then
  publish(v, meta, changes, show, 'repair', table.concat(told, ' '))
  expire(v, owners, orders, users)
end
reply[2], reply[3] = v.revision, fits(v, seats, owners, orders, users) and 1 or 0
for _, id in ipairs(left) do reply[#reply + 1] = id end
return reply
