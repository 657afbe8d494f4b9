-- What the scripts of a show share; its text is put before theirs. Before it
-- stand: identity, the name of this incarnation of the server; now, its clock
-- (ms since 1970); kept and trim, how many changes of a partition are kept.
-- A view is {generation, revision, ends, size, fits, counts by state, orders, users}.
--
-- Reply {ended}: the view's lifetime is over · {not ready}: there is no usable view
--       {foreign}: it was built on another incarnation of the server
--       {later}: the caller knows of a later end of the lifetime; tell the view by lifetime.lua first
local call = redis.call

-- Whether the counts fit the keys.
local function fits(v, seats, owners, orders, users)
  local owned = v['1'] + v['2'] + v['x']
  return call('STRLEN', seats) == v.size and v.size == v['0'] + owned + v['-'] and call('HLEN', owners) == owned
    and call('HLEN', orders) == v.orders and call('HLEN', users) == v.users
end

-- Reads a view, or returns nothing and the reply to give.
local function open(seats, owners, orders, users, meta, ends)
  if now >= ends then return nil, {'ended', now} end
  local m = call('HMGET', meta, 'identity', 'generation', 'revision', 'until', 'size', 'counts')
  if not m[1] or now >= m[4] + 3600000 then return nil, {'not ready'} end
  if m[1] ~= identity then return nil, {'foreign'} end
  if ends > tonumber(m[4]) then return nil, {'later'} end
  local v, c = {generation = m[2], revision = m[3], ends = tonumber(m[4]), size = tonumber(m[5])}, {}
  for count in string.gmatch(m[6], '%d+') do c[#c + 1] = tonumber(count) end
  v['0'], v['1'], v['2'], v['x'], v['-'], v.orders, v.users = c[2], c[3], c[4], c[5], c[6], c[7], c[8]
  v.fits = fits(v, seats, owners, orders, users)
  return v
end

-- The state of a seat; one that does not exist is no seat.
local function state(seats, id)
  local s = tonumber(id) > 0 and call('GETRANGE', seats, id - 1, id - 1) or ''
  return s == '' and '-' or s
end

-- Moves a seat from one state to another, and to an owner or to nobody.
local function move(v, seats, owners, id, from, to, owner)
  call('SETRANGE', seats, id - 1, to)
  if owner then call('HSET', owners, id, owner) else call('HDEL', owners, id) end
  v[from], v[to] = v[from] - 1, v[to] + 1
end

-- Reads an order's record; nil if there is none.
local function read(orders, owner)
  local text = call('HGET', orders, owner)
  if not text then return nil end
  local r, list = {seats = {}}
  r.state, list, r.taken, r.ends, r.cap, r.key, r.user = string.match(text, '^(%S) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  for id in string.gmatch(list, '[^,]+') do r.seats[#r.seats + 1] = id end
  return r
end

-- Writes a record in the place of an earlier one (or nil), with what its user
-- is charged; a record without seats goes.
local function write(v, orders, users, owner, old, r)
  local function charge(user, n)
    local sum = n ~= 0 and call('HINCRBY', users, user, n)
    if sum and sum == n then v.users = v.users + 1 end
    if sum == 0 then v.users = v.users - 1 call('HDEL', users, user) end
  end
  local function charged(o) return o and o.state ~= 'x' and #o.seats or 0 end
  if old and old.user == r.user then
    charge(r.user, charged(r) - charged(old))
  else
    if old then charge(old.user, -charged(old)) end
    charge(r.user, charged(r))
  end
  if #r.seats > 0 then
    call('HSET', orders, owner, table.concat({r.state, table.concat(r.seats, ','), r.taken, r.ends, r.cap, r.key, r.user}, ' '))
  else
    call('HDEL', orders, owner)
  end
  v.orders = v.orders + (#r.seats > 0 and 1 or 0) - (old and 1 or 0)
end

-- Keys that may be new expire with the view.
local function expire(v, ...)
  for _, name in ipairs({...}) do call('PEXPIREAT', name, v.ends + 3600000) end
end

-- Writes the counts.
local function tally(v, meta)
  call('HSET', meta, 'revision', v.revision, 'size', v.size, 'counts', table.concat({v['1'] + v['2'] + v['x'],
    v['0'], v['1'], v['2'], v['x'], v['-'], v.orders, v.users}, ' '))
end

-- Makes the change the next revision and tells of it. The seats are written as
-- STATE, then + − or = for the change in occupied places, then their ids.
local function publish(v, meta, changes, show, verb, text)
  v.revision = v.revision + 1
  tally(v, meta)
  call('XADD', changes, 'MAXLEN', trim, kept, '*', 'change',
    table.concat({show, v.generation .. '.' .. v.revision, verb, now, text}, ' '))
end
