#!lua
-- Installs a whole view in the place of the one there, if its generation is
-- higher. The caller has checked that it holds together.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 rate, 7 deadlines, 8 changes
-- ARGV  1 show, 2 end of the view's lifetime (ms since 1970), 3 generation, 4 the seats' states,
--       5 counts (as in meta), 6 how many orders, 7… three for each order: owner, record, deadline
--       (ms since 1970, -inf, or - if it is not held), then two for each user: user, seats in effect
-- Reply {rebuilt} · {stale} · {ended}
-- Edges any
local seats, owners, orders, users = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local meta, rate, deadlines, changes = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local show, ends, generation = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local states, counts, listed, first = ARGV[4], ARGV[5], tonumber(ARGV[6]), 7
local call = redis.call

if now >= ends then return {'ended'} end
local there = call('HMGET', meta, 'generation', 'until')
if tonumber(generation) < 1 then return {'stale'} end
if there[1] and now < there[2] + 3600000 and tonumber(generation) <= tonumber(there[1]) then return {'stale'} end

-- Calls a command with many arguments in pieces that Lua can hold.
local function feed(command, key, list)
  for i = 1, #list, 4000 do call(command, key, unpack(list, i, math.min(i + 3999, #list))) end
end

local gone = call('HKEYS', orders)
for i = 1, #gone do gone[i] = show .. ':' .. gone[i] end
feed('ZREM', deadlines, gone)
call('UNLINK', seats, owners, orders, users, meta)

local owned, records, due, charged = {}, {}, {}, {}
for i = first, first + 3 * listed - 1, 3 do
  local owner, record, ending = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  records[#records + 1], records[#records + 2] = owner, record
  for id in string.gmatch(string.match(record, '^%S (%S+)'), '[^,]+') do
    owned[#owned + 1], owned[#owned + 2] = id, owner
  end
  if ending ~= '-' then due[#due + 1], due[#due + 2] = ending, show .. ':' .. owner end
end
for i = first + 3 * listed, #ARGV do charged[#charged + 1] = ARGV[i] end
feed('HSET', owners, owned)
feed('HSET', orders, records)
feed('HSET', users, charged)
feed('ZADD', deadlines, due)
call('SET', seats, states)
call('HSET', meta, 'identity', identity, 'generation', generation, 'revision', 0, 'until', ends,
  'size', #states, 'counts', counts)
call('XADD', changes, 'MAXLEN', trim, kept, '*', 'change', table.concat({show, generation .. '.0', 'rebuild', now, ''}, ' '))
for _, name in ipairs({seats, owners, orders, users, meta, rate}) do call('PEXPIREAT', name, ends + 3600000) end
if call('PTTL', changes) < 0 then call('PEXPIREAT', changes, ends + 3600000) end
call('PEXPIREAT', changes, ends + 3600000, 'GT')
return {'rebuilt'}
