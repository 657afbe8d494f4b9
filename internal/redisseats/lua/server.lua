#!lua flags=allow-oom
-- Tells which server this is. Run as it is, with a key of the partition, so
-- that it is answered by the master that has the partition.
--
-- KEYS  1 changes
-- ARGV  none
-- Reply {server, run id, replication id, role, version, eviction policy}
-- Edges none
local changes = KEYS[1]
local reply = {'server'}
local about = redis.call('INFO', 'server', 'replication', 'memory') .. (changes and '')
for i, field in ipairs({'run_id', 'master_replid', 'role', 'redis_version', 'maxmemory_policy'}) do
  reply[i + 1] = string.match(about, '\r?\n' .. field .. ':([^\r\n]*)') or ''
end
return reply
