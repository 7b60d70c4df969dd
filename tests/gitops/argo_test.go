package gitops

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const argoFolder = "../../gitops/argocd"

var update = flag.Bool("update", false, "write gitops/argocd/argocd-cm.yaml")

// What Argo CD makes of an object: it runs the script with `obj` as its only global, without Lua's string, math and io
// libraries, for at most a second.
func argoHealth(script string, object *unstructured.Unstructured) (status, message string, err error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", luaValue(state, object.Object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the script returned %s, not a table", state.Get(-1).Type())
	}
	table.ForEach(func(key, value lua.LValue) {
		text, ok := value.(lua.LString)
		switch {
		case ok && key.String() == "status":
			status = string(text)
		case ok && key.String() == "message":
			message = string(text)
		default:
			err = fmt.Errorf("the script returned %s: %s", key, value)
		}
	})
	return status, message, err
}

// luaValue turns a value of an object into Lua's, as Argo CD does: every number is a float there.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

// The scripts by kind: gitops/argocd/KIND/health.lua.
func argoScripts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(argoFolder + "/*/health.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", argoFolder, err)
	}
	scripts := map[string]string{}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scripts[filepath.Base(filepath.Dir(file))] = string(script)
	}
	return scripts
}

func TestArgoConfigMapHoldsTheScripts(t *testing.T) {
	var made strings.Builder
	made.WriteString(`# The health of Proofmill's kinds for Argo CD, made from the scripts beside it by: tests/gitops/run -update
#
#   kubectl patch configmap argocd-cm --namespace argocd --patch-file gitops/argocd/argocd-cm.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
  namespace: argocd
data:
`)
	scripts := argoScripts(t)
	for _, kind := range kinds {
		made.WriteString("  resource.customizations.health.proofmill.dev_" + kind + ": |\n")
		for _, line := range strings.SplitAfter(scripts[kind], "\n") {
			if strings.TrimSpace(line) != "" {
				line = "    " + line
			}
			made.WriteString(line)
		}
	}
	file := argoFolder + "/argocd-cm.yaml"
	if *update {
		if err := os.WriteFile(file, []byte(made.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(there) != made.String() {
		t.Errorf("%s is not what the scripts make; tests/gitops/run -update writes it", file)
	}

	// And as YAML it says what was meant.
	var patch struct{ Data map[string]string }
	if err := yaml.Unmarshal(there, &patch); err != nil {
		t.Fatal(err)
	}
	if len(patch.Data) != len(scripts) {
		t.Errorf("%d keys for %d scripts", len(patch.Data), len(scripts))
	}
	for kind, script := range scripts {
		if patch.Data["resource.customizations.health.proofmill.dev_"+kind] != script {
			t.Errorf("%s does not hold the script of %s", file, kind)
		}
	}
}
