-- Stores a turn whose response begins. An existing turn stays as it is, so that a late copy of this
-- call does not reset it.
-- KEYS: turn, lease, lane ('' for none).
-- ARGV: owner, host, keep-alive in ms, id, time to live in ms, lease in ms.
local turn, lease, lane = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', turn) == 1 then
  return 'ok'
end
redis.call('HSET', turn, 'owner', ARGV[1], 'host', ARGV[2], 'keep_alive', ARGV[3],
  'epoch', '1', 'base', '0', 'over', '0')
redis.call('PEXPIRE', turn, ARGV[5])
redis.call('SET', lease, '1', 'PX', ARGV[6])
if lane ~= '' then
  redis.call('SET', lane, ARGV[4], 'PX', ARGV[5])
end
return 'ok'
