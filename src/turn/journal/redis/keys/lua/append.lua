-- Appends frames, drops the head, and renews the lease and the expiry of the keys: all of it or
-- nothing. A batch that arrives twice is appended once.
-- KEYS: turn, frames, lease, readers, lane ('' for none).
-- ARGV: epoch, index of the first frame, first index to keep, time to live in ms, lease in ms (0 if
--       the last frame is the end, '' to renew nothing), ID, the end for a turn that has lost frames
--       ('' if it is not known), the snapshot of the dropped frames ('' for none), then the frames.
-- Returns ok, missing (acknowledged frames are missing, and nothing was changed), lost (they are, and
-- the turn has ended) or fenced (another host has ended the turn), and for how many ms from now other
-- hosts have readers of the turn, if the lease is renewed.
local turn, frames, lease, lane = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local epoch, first, base, ttl, hold = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local count = #ARGV - 8
local read = hold == '' and -1 or redis.call('PTTL', KEYS[4])

local function entry_id(at_epoch, index)
  return string.format('%s-%.0f', at_epoch, index + 1)
end

local function expire()
  redis.call('PEXPIRE', turn, ttl)
  redis.call('PEXPIRE', frames, ttl)
  if lane ~= '' and redis.call('GET', lane) == ARGV[6] then
    redis.call('PEXPIRE', lane, ttl)
  end
end

local head = redis.call('HMGET', turn, 'epoch', 'base', 'over')
if not head[1] then
  return { 'lost', read }
end
if head[1] ~= epoch then
  return { 'fenced', read }
end
local next, kept_from = next_index(frames), tonumber(head[2])

if redis.call('XLEN', frames) ~= next - kept_from or next < first then
  if ARGV[7] == '' then
    return { 'missing', read }
  end
  -- Ends the turn for readers on other hosts too, at the index at which the producer's own readers
  -- have the end. The frames that are missing before it stay missing.
  local higher = string.format('%.0f', tonumber(epoch) + 1)
  redis.call('XADD', frames, entry_id(higher, first), 'f', ARGV[7])
  redis.call('HSET', turn, 'epoch', higher, 'over', '1')
  redis.call('DEL', lease)
  expire()
  return { 'lost', read }
end
if next > first then
  -- This batch, or this renewal, was applied before.
  return { next >= first + count and 'ok' or 'lost', read }
end
if head[3] == '1' then
  return { count == 0 and 'ok' or 'fenced', read }
end

for at = 1, count do
  redis.call('XADD', frames, entry_id(epoch, first + at - 1), 'f', ARGV[8 + at])
end
if base > kept_from then
  redis.call('XTRIM', frames, 'MINID', '=', entry_id(epoch, base))
  redis.call('HSET', turn, 'base', string.format('%.0f', base), 'snapshot', ARGV[8])
end
if hold == '0' then
  redis.call('HSET', turn, 'over', '1')
  redis.call('DEL', lease)
elseif hold ~= '' then
  redis.call('SET', lease, '1', 'PX', hold)
end
if hold ~= '' then
  expire()
end
return { 'ok', read }
