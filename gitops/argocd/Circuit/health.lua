local status = obj.status or {}
local ready
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then ready = condition end
end

if ready == nil then
  return {status = "Progressing", message = "the operator has not seen the circuit yet"}
end
local generation = obj.metadata.generation
if (status.observedGeneration or generation) ~= generation then
  return {status = "Progressing", message = "the operator has not seen the last change yet"}
end
local said = ready.reason .. ": " .. ready.message

if ready.status == "False" then return {status = "Degraded", message = said} end
-- Unknown (Inspecting) too: nobody reads a circuit's files before its first job, or a pool that lists it, needs them. If the
-- circuit were Progressing until then, a sync would never come to the later wave that brings this job or pool.
return {status = "Healthy", message = said}
