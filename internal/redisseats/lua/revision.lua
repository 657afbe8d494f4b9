#!lua flags=allow-oom
-- Reads where a view stands.
--
-- KEYS  1 meta
-- ARGV  1 end of the view's lifetime (ms since 1970)
-- Reply {at, generation, revision} · {ended} · {not ready} · {foreign} · {later}
-- Edges none
local meta = KEYS[1]
local ends = tonumber(ARGV[1])

if now >= ends then return {'ended'} end
local m = redis.call('HMGET', meta, 'identity', 'generation', 'revision', 'until')
if not m[1] or now >= m[4] + 3600000 then return {'not ready'} end
if m[1] ~= identity then return {'foreign'} end
if ends > tonumber(m[4]) then return {'later'} end
return {'at', m[2], m[3]}
