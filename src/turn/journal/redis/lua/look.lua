-- What there is of a turn, in one moment; nothing where there is no turn.
-- KEYS: turn, frames, lease.
local head = redis.call('HMGET', KEYS[1], 'owner', 'host', 'keep_alive', 'epoch', 'next', 'base', 'over')
if not head[4] then
  return {}
end
head[8] = string.format('%.0f', redis.call('PTTL', KEYS[3]))
head[9] = string.format('%.0f', redis.call('XLEN', KEYS[2]))
-- Only of a turn that has dropped frames, and seldom asked for.
head[10] = redis.call('HGET', KEYS[1], 'snapshot') or ''
return head
