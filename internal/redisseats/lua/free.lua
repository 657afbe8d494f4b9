-- What release, unsell and unblock share; its text is put after common.lua and
-- before theirs.

-- Frees an owner's seats that are in one of the states from: all of its
-- record (nothing listed) or those listed. The user's count falls by the
-- number of seats really freed. Replies {done, how many, freed id…, refused id…}.
local function free(v, keys, show, owner, verb, from, listed, first)
  local seats, owners, orders, users, meta, deadlines, changes = unpack(keys)
  local record, reply, refused, gone = read(orders, owner), {'done', 0}, {}, {}
  local ids = {}
  for i = first, #ARGV do ids[#ids + 1] = ARGV[i] end
  if listed == '0' then ids = record and record.seats or {} end
  for _, id in ipairs(ids) do
    local s = record and state(seats, id)
    if record and string.find(from, s, 1, true) and call('HGET', owners, id) == owner then
      reply[#reply + 1], gone[id] = id, s
    elseif listed == '1' then
      refused[#refused + 1] = id
    end
  end
  reply[2] = #reply - 2
  if reply[2] > 0 then
    local left = {}
    for _, id in ipairs(record.seats) do
      if not gone[id] then left[#left + 1] = id end
    end
    write(v, orders, users, owner, record, {state = record.state, seats = left, taken = record.taken,
      ends = record.ends, cap = record.cap, key = record.key, user = record.user})
    if #left == 0 then call('ZREM', deadlines, show .. ':' .. owner) end
    for i = 3, #reply do move(v, seats, owners, reply[i], gone[reply[i]], '0', nil) end
    publish(v, meta, changes, show, verb, '0-' .. table.concat(reply, ',', 3))
  end
  for _, id in ipairs(refused) do reply[#reply + 1] = id end
  return reply
end
