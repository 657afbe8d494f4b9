-- Orders for wrk: each request asks for a seat that no other request asked
-- for (seats=spread), or all of them for the same one (seats=one). Requests
-- are put together by hand, because wrk shares the cores with what it
-- measures.
--
-- Arguments, name=value: path, tokens (a file, one a line), threads, first
-- (number of the first seat), shows (numbers with commas), per (seats in a
-- show), seats (spread or one), across (1: neighbouring orders go to
-- different shows), run (start of every idempotency key).

local created = 0

function setup(thread)
  thread:set("id", created)
  created = created + 1
end

function init(args)
  local arg = {}
  for _, a in ipairs(args) do
    local name, value = a:match("^(%w+)=(.*)$")
    arg[name] = value
  end
  heads = {}
  for token in io.lines(arg.tokens) do
    heads[#heads + 1] = "POST " .. arg.path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port ..
      "\r\nAuthorization: Bearer " .. token .. "\r\nContent-Type: application/json\r\nIdempotency-Key: " .. arg.run
  end
  shows = {}
  for show in arg.shows:gmatch("%d+") do shows[#shows + 1] = show end
  threads, n, per = tonumber(arg.threads), tonumber(arg.first) + id, tonumber(arg.per)
  one, across = arg.seats == "one", arg.across == "1"
  nth = id
end

function request()
  local show, seat
  if one then
    show, seat = shows[1], 1
  elseif across then
    show, seat = shows[n % #shows + 1], math.floor(n / #shows) + 1
  else
    show, seat = shows[math.floor(n / per) + 1] or shows[#shows], n % per + 1
  end
  local body = '{"showId":' .. show .. ',"seats":[' .. seat .. ']}'
  local head = heads[nth % #heads + 1]
  local key = n
  n, nth = n + threads, nth + threads
  return head .. key .. "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"micros":%d,"refused":%d,"failed":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
