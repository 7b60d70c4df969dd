package gitops

import (
	"context"
	"os"
	"testing"

	kustomize "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const fluxFile = "../../gitops/flux/kustomization.yaml"

// What Flux makes of an object. An error of an expression is the status Unknown, as it is when Flux polls.
type fluxHealth func(object *unstructured.Unstructured) (string, error)

// Flux's own readers of health by kind, made from the example as Flux makes them.
func fluxReaders(t *testing.T) map[string]fluxHealth {
	t.Helper()
	text, err := os.ReadFile(fluxFile)
	if err != nil {
		t.Fatal(err)
	}
	var example kustomize.Kustomization
	if err := yaml.UnmarshalStrict(text, &example); err != nil {
		t.Fatal(err)
	}
	if !example.Spec.Wait {
		t.Error("without `wait` the expressions are not used")
	}
	readers := map[string]fluxHealth{}
	for _, check := range example.Spec.HealthCheckExprs {
		if check.APIVersion != apiVersion {
			t.Errorf("%s of %s", check.Kind, check.APIVersion)
		}
		evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil {
			t.Fatal(err)
		}
		kind := schema.FromAPIVersionAndKind(check.APIVersion, check.Kind).GroupKind()
		reader := cel.NewStatusReader(context.Background(), nil, kind, evaluator)
		readers[check.Kind] = func(object *unstructured.Unstructured) (string, error) {
			health, err := reader.ReadStatusForObject(context.Background(), nil, object)
			if err != nil {
				return "", err
			}
			return health.Status.String(), health.Error
		}
	}
	return readers
}
