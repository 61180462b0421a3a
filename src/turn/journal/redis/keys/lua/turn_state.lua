-- Returns the state of a turn at one moment; nothing if the turn does not exist.
-- KEYS: turn, frames, lease.
local head = redis.call('HMGET', KEYS[1], 'owner', 'host', 'keep_alive', 'epoch', 'base', 'over')
if not head[4] then
  return {}
end
head[7] = string.format('%.0f', next_index(KEYS[2]))
head[8] = string.format('%.0f', redis.call('PTTL', KEYS[3]))
head[9] = string.format('%.0f', redis.call('XLEN', KEYS[2]))
-- Empty unless the turn has dropped frames.
head[10] = redis.call('HGET', KEYS[1], 'snapshot') or ''
return head
