-- A sliding window of one user's attempts.
-- KEYS[1] sorted set. ARGV[1] the most attempts, ARGV[2] span in ms, ARGV[3] a
-- name for this attempt. Replies 1: within the window, 0: over it.
local window, most, span, attempt = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', window, '-inf', now - span)
if redis.call('ZCARD', window) >= most then
  return 0
end
redis.call('ZADD', window, now, attempt)
redis.call('PEXPIRE', window, span)
return 1
