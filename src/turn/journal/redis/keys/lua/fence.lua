-- Ends a turn whose producer has died, unless another host has ended it or the producer is alive.
-- Returns 1 if it ended the turn.
-- KEYS: turn, frames, lease. ARGV: expected epoch and next index, the end, time to live in ms.
local turn, frames, lease = KEYS[1], KEYS[2], KEYS[3]
local head = redis.call('HMGET', turn, 'epoch', 'over')
local next = next_index(frames)
if head[1] ~= ARGV[1] or next ~= tonumber(ARGV[2]) or head[2] ~= '0' or redis.call('EXISTS', lease) == 1 then
  return 0
end
local higher = string.format('%.0f', tonumber(head[1]) + 1)
redis.call('XADD', frames, string.format('%s-%.0f', higher, next + 1), 'f', ARGV[3])
redis.call('HSET', turn, 'epoch', higher, 'over', '1')
redis.call('PEXPIRE', turn, ARGV[4])
redis.call('PEXPIRE', frames, ARGV[4])
return 1
