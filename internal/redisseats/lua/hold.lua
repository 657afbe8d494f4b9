#!lua
-- Takes seats for an order, all or none, as long as the show's rate and the
-- user's limit allow.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 rate, 7 deadlines, 8 changes
-- ARGV  1 show, 2 owner (ORDER.n), 3 user, 4 key hash (32 hex digits, or -), 5 end of the view's
--       lifetime (ms since 1970), 6 hold for (ms), 7 cap (ms; 0: as 6), 8 limit (seats; 0: none),
--       9 rate (holds a second; 0: any), 10… seat ids, ascending
-- Reply {held, generation, revision, taken at, deadline, cap (ms since 1970), 1 if it was held before}
--       {yours, generation, revision, owner} · {busy, generation, revision, retry after (ms)}
--       {taken, generation, revision, seat id…} · {over limit, generation, revision, left}
--       {not ready} · {foreign} · {later}: see common.lua
-- Edges 0→1
local seats, owners, orders, users = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local meta, rate, deadlines, changes = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local show, owner, user, key = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ends, span, most, limit = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local pace, first = tonumber(ARGV[9]), 10
local lo, hi, n, call = tonumber(ARGV[first]), tonumber(ARGV[#ARGV]), #ARGV - first + 1, redis.call
local m = call('HMGET', meta, 'identity', 'generation', 'revision', 'until', 'size', 'counts')
if now >= ends or not m[1] or now >= m[4] + 3600000 then return {'not ready'} end
if m[1] ~= identity then return {'foreign'} end
local owned = tonumber(string.match(m[6], '^%d+'))
if call('HLEN', owners) ~= owned then return {'not ready'} end
if ends > tonumber(m[4]) then return {'later'} end

local lost, near = {}, lo > 0 and hi - lo < 64 -- what is not free; seats near each other are read at once
local run = near and call('GETRANGE', seats, lo - 1, hi - 1)
if near and #run <= hi - lo and hi <= tonumber(m[5]) then return {'not ready'} end
for i = first, #ARGV do
  local id = tonumber(ARGV[i])
  local free = near and string.byte(run, id - lo + 1) == 48
    or not near and id > 0 and call('GETRANGE', seats, id - 1, id - 1) == '0'
  if not free then lost[#lost + 1] = ARGV[i] end
end

-- Is it the caller's own? Whoever is charged with nothing has no order here.
local has = tonumber(call('HGET', users, user) or 0)
if has > 0 and #lost > 0 then
  local found
  for _, other in ipairs(call('HMGET', owners, unpack(lost))) do
    local record = other and (other == owner or key ~= '-') and call('HGET', orders, other)
    if record then
      local state, list, taken, ending, cap, hash, by = string.match(record, '^(%S) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
      if other == owner and state == '1' and by == user and now < (tonumber(ending) or 0)
        and list == table.concat(ARGV, ',', first) then
        return {'held', m[2], m[3], taken, ending, cap, 1}
      elseif other ~= owner and state ~= 'x' and by == user and hash == key then
        found = found or other
      end
    end
  end
  if found then return {'yours', m[2], m[3], found} end
end

local passed, at = pace > 0 and call('LLEN', rate) or 0, now -- the times of the holds let through, the newest first
if pace > 0 and (passed >= pace or passed % 64 == 63) then
  local newest = tonumber(call('LINDEX', rate, 0))
  if newest > now + 1000 then call('DEL', rate) else at = math.max(now, newest) end -- the clock was set back
  while tonumber(call('LINDEX', rate, -1) or at) <= at - 1000 do call('RPOP', rate) end
  passed = call('LLEN', rate)
  if passed >= pace then return {'busy', m[2], m[3], call('LINDEX', rate, pace - 1 - passed) + 1000 - at} end
end
if pace > 0 then call('LPUSH', rate, at) end
if pace > 0 and passed == 0 then call('PEXPIREAT', rate, m[4] + 3600000) end

if #lost > 0 then return {'taken', m[2], m[3], unpack(lost)} end
if limit > 0 and has + n > limit then
  if call('HEXISTS', orders, owner) == 1 then return {'taken', m[2], m[3], unpack(ARGV, first)} end
  return {'over limit', m[2], m[3], math.max(0, limit - has)}
end
local _, free, held, sold, blocked, none, listed, buyers =
  string.match(m[6], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
if call('STRLEN', seats) ~= tonumber(m[5]) or call('HLEN', orders) ~= tonumber(listed)
  or call('HLEN', users) ~= tonumber(buyers) then return {'not ready'} end
local ids, cap = table.concat(ARGV, ',', first), now + (most > 0 and most or span)
local ending, pairs_ = math.min(now + span, cap), {}
if call('HSETNX', orders, owner, table.concat({'1', ids, now, ending, cap, key, user}, ' ')) == 0 then
  return {'taken', m[2], m[3], unpack(ARGV, first)} -- an owner takes seats once
end
if hi - lo + 1 == n then call('SETRANGE', seats, lo - 1, string.rep('1', n)) end
for i = first, #ARGV do
  if hi - lo + 1 > n then call('SETRANGE', seats, ARGV[i] - 1, '1') end
  pairs_[#pairs_ + 1], pairs_[#pairs_ + 2] = ARGV[i], owner
end
call('HSET', owners, unpack(pairs_))
call('HSET', users, user, has + n)
call('HSET', meta, 'revision', m[3] + 1, 'counts', table.concat({owned + n, free - n, held + n, sold, blocked, none,
  listed + 1, has > 0 and buyers or buyers + 1}, ' '))
call('ZADD', deadlines, ending, show .. ':' .. owner)
call('XADD', changes, 'MAXLEN', trim, kept, '*', 'change',
  table.concat({show, m[2] .. '.' .. m[3] + 1, 'hold', now, '1+' .. ids}, ' '))
if owned == 0 then call('PEXPIREAT', owners, m[4] + 3600000) call('PEXPIREAT', orders, m[4] + 3600000) end
if held + sold == 0 then call('PEXPIREAT', users, m[4] + 3600000) end
return {'held', m[2], m[3] + 1, now, ending, cap, 0}
