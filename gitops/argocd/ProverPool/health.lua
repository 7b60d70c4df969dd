-- Someone has to act: the operator tries again, but does not expect to get on by itself. Other reasons pass.
local faults = {
  CrashLoop = true,
  ImagePull = true,
  NoCapacity = true,
  PodsFailed = true,
  PodsRefused = true,
}

local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end
local ready, template = conditions.Ready, conditions.TemplateValid

local function health(verdict, condition)
  return {status = verdict, message = condition.reason .. ": " .. condition.message}
end

if ready == nil then
  return {status = "Progressing", message = "the operator has not seen the pool yet"}
end
local generation = obj.metadata.generation
if (status.observedGeneration or generation) ~= generation then
  return {status = "Progressing", message = "the operator has not seen the last change yet"}
end
-- The pods of the last valid template stay, and the pool with them Ready. And the answer about the template comes after the
-- rest of the status: until then the condition is of an earlier generation, or is not there.
if template == nil or (template.observedGeneration or generation) ~= generation then
  return {status = "Progressing", message = "the template is being checked"}
end
if template.status == "False" then return health("Degraded", template) end

-- Ready is true while pods are replaced, but of some the template is still the earlier one.
if ready.status == "True" and ready.reason ~= "Replacing" then return health("Healthy", ready) end
if ready.status == "False" and faults[ready.reason] then return health("Degraded", ready) end
return health("Progressing", ready)
