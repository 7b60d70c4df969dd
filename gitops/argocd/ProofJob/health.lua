-- The condition Succeeded is the job's outcome: Unknown while the job is active, final once it is True or False.
local status = obj.status or {}
local outcome
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Succeeded" then outcome = condition end
end

if outcome == nil then
  return {status = "Progressing", message = "the operator has not seen the job yet"}
end
local said = outcome.reason .. ": " .. outcome.message

-- Before the generation is compared: a change of priority or TTL does not undo a proof.
if outcome.status == "True" then return {status = "Healthy", message = said} end
if outcome.status == "False" then return {status = "Degraded", message = said} end

local generation = obj.metadata.generation
if (status.observedGeneration or generation) ~= generation then
  return {status = "Progressing", message = "the operator has not seen the last change yet"}
end
-- By what the operator says: spec.suspend alone does not tell whether the work has stopped.
if outcome.reason == "Suspended" then return {status = "Suspended", message = said} end
return {status = "Progressing", message = said}
