-- Reads for wrk: the given paths one after the other, as they are in the
-- argument paths=/a,/b.

function init(args)
  requests = {}
  for path in args[1]:match("^paths=(.*)$"):gmatch("[^,]+") do
    requests[#requests + 1] = "GET " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port .. "\r\n\r\n"
  end
  n = 0
end

function request()
  n = n + 1
  return requests[n % #requests + 1]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"micros":%d,"refused":%d,"failed":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
