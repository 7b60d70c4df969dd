// Package gitops tests what Argo CD and Flux say about the health of Proofmill's kinds: Argo CD by its Lua scripts, Flux by its
// CEL expressions, over the objects in testdata.
package gitops

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	apiVersion     = "proofmill.dev/v1alpha1"
	conditionsFile = "../../crds/src/conditions.rs"
)

var kinds = []string{"Circuit", "ProofJob", "ProverPool"}

// A case of testdata/*.yaml.
type healthCase struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Of the metadata; 1 unless said.
	Generation int64           `json:"generation"`
	Spec       json.RawMessage `json:"spec"`
	// Without it the object has no status. REASON within stands for each of Reasons.
	Status  json.RawMessage `json:"status"`
	Reasons []string        `json:"reasons"`
	// What Argo CD and Flux say, and Argo CD's message.
	Argo string `json:"argo"`
	Flux string `json:"flux"`
	Says string `json:"says"`
	// Why the two do not agree.
	Apart string `json:"apart"`
}

// What Flux says where Argo CD says this. To Flux a suspended object is as it was asked to be.
var agreement = map[string]string{
	"Healthy": "Current", "Suspended": "Current", "Progressing": "InProgress", "Degraded": "Failed",
}

func TestHealth(t *testing.T) {
	scripts, readers := argoScripts(t), fluxReaders(t)
	if len(scripts) != len(kinds) || len(readers) != len(kinds) {
		t.Errorf("%d kinds, %d scripts, %d entries of healthCheckExprs", len(kinds), len(scripts), len(readers))
	}
	for _, test := range cases(t) {
		t.Run(test.Kind+": "+test.Name, func(t *testing.T) {
			object := test.object(t)
			argo, message, err := argoHealth(scripts[test.Kind], object)
			if err != nil || argo != test.Argo {
				t.Errorf("Argo CD says %q (%v), not %q", argo, err, test.Argo)
			}
			if test.Says != "" && message != test.Says || message == "" {
				t.Errorf("Argo CD's message is %q, not %q", message, test.Says)
			}
			flux, err := readers[test.Kind](object)
			if flux != test.Flux {
				t.Errorf("Flux says %q (%v), not %q", flux, err, test.Flux)
			}
			// Flux has no name for a status that is not there: it waits.
			if (err != nil) != (test.Status == nil) || (err != nil) != (flux == "Unknown") {
				t.Errorf("Flux says %q, with the error: %v", flux, err)
			}
			if err == nil && (agreement[argo] == flux) != (test.Apart == "") {
				t.Errorf("Argo CD says %s and Flux %s; agreed otherwise: %q", argo, flux, test.Apart)
			}
		})
	}
}

// A new reason needs a case that says what it means for health.
func TestEveryConditionAndReasonHasACase(t *testing.T) {
	source, err := os.ReadFile(conditionsFile)
	if err != nil {
		t.Fatal(err)
	}
	types, reasons, found := strings.Cut(string(source), "pub mod reasons")
	if !found {
		t.Fatalf("%s has no module of reasons", conditionsFile)
	}
	usedTypes, usedReasons := used(t)
	compare(t, "condition", constants(types), usedTypes)
	// From the future, or not among the constants.
	compare(t, "reason", append(constants(reasons), "NeverHeardOf", "Sent"), usedReasons)
}

func constants(source string) []string {
	var values []string
	for _, match := range regexp.MustCompile(`pub const [A-Z_]+: &str = "(\w+)";`).FindAllStringSubmatch(source, -1) {
		values = append(values, match[1])
	}
	return values
}

// The types and reasons of the conditions in all cases.
func used(t *testing.T) (types, reasons []string) {
	for _, test := range cases(t) {
		conditions, _, err := unstructured.NestedSlice(test.object(t).Object, "status", "conditions")
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range conditions {
			fields := condition.(map[string]any)
			types = append(types, fields["type"].(string))
			reasons = append(reasons, fields["reason"].(string))
		}
	}
	return types, reasons
}

func compare(t *testing.T, what string, known, used []string) {
	if len(known) < 5 {
		t.Errorf("only %d %ss are found in %s", len(known), what, conditionsFile)
	}
	for _, name := range known {
		if !slices.Contains(used, name) {
			t.Errorf("no case in testdata has the %s %s: decide what it means for health", what, name)
		}
	}
	for _, name := range used {
		if !slices.Contains(known, name) {
			t.Errorf("a case in testdata has the %s %s, which %s does not know", what, name, conditionsFile)
		}
	}
}

// All cases, one for each of their reasons.
func cases(t *testing.T) []healthCase {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	var all []healthCase
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var some []healthCase
		if err := yaml.UnmarshalStrict(text, &some); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range some {
			if len(test.Reasons) == 0 {
				all = append(all, test)
			}
			for _, reason := range test.Reasons {
				one := test
				one.Name += ": " + reason
				one.Status = bytes.ReplaceAll(test.Status, []byte("REASON"), []byte(reason))
				one.Says = strings.ReplaceAll(test.Says, "REASON", reason)
				all = append(all, one)
			}
		}
	}
	return all
}

// The object as an API server gives it: with whole numbers as such.
func (test healthCase) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	generation := max(test.Generation, 1)
	object := map[string]any{
		"apiVersion": apiVersion,
		"kind":       test.Kind,
		"metadata":   map[string]any{"name": "first", "namespace": "proofs", "generation": generation},
	}
	if test.Spec != nil {
		object["spec"] = test.Spec
	}
	if test.Status != nil {
		object["status"] = test.Status
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return made
}
