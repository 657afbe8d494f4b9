#!lua flags=allow-oom
-- Takes free seats for a block whose fact is in the ledger already. An owner
-- that holds or has bought seats is no block: all it asks for is refused.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 changes
-- ARGV  1 show, 2 owner (ORDER.n), 3 end of the view's lifetime (ms since 1970), 4… seat ids, ascending
-- Reply {done, how many were blocked, blocked id…, refused id…} · {ended} · {not ready} · {foreign} · {later}
-- Edges 0→x; x→x (a repeat), of the owner
local seats, owners, orders, users, meta, changes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local show, owner, ends, first = ARGV[1], ARGV[2], tonumber(ARGV[3]), 4

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
if not v.fits then return {'not ready'} end
local old, refused = read(orders, owner), {}
reply = {'done', 0}
for i = first, #ARGV do
  local s = state(seats, ARGV[i])
  if s == '0' and (not old or old.state == 'x') then
    reply[#reply + 1] = ARGV[i]
  elseif s ~= 'x' or not old or old.state ~= 'x' or call('HGET', owners, ARGV[i]) ~= owner then
    refused[#refused + 1] = ARGV[i]
  end
end
reply[2] = #reply - 2
if reply[2] > 0 then
  local record = {state = 'x', seats = {}, taken = now, ends = '-', cap = '-', key = '-', user = ''}
  if old then record = read(orders, owner) end
  for i = 3, #reply do record.seats[#record.seats + 1] = reply[i] end
  table.sort(record.seats, function(a, b) return tonumber(a) < tonumber(b) end)
  write(v, orders, users, owner, old, record)
  for i = 3, #reply do move(v, seats, owners, reply[i], '0', 'x', owner) end
  publish(v, meta, changes, show, 'block', 'x+' .. table.concat(reply, ',', 3))
  expire(v, owners, orders)
end
for _, id in ipairs(refused) do reply[#reply + 1] = id end
return reply
