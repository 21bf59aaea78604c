package daemon

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/policy"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/formats/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExamplesOfTheReferenceAreValid(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t, "policy.md"), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d examples were found", len(blocks))
	}
	for _, block := range blocks {
		p, err := policy.Parse("example", []byte(block[1]))
		if err != nil || len(p.Warnings) > 0 {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
}

func TestEveryMetricIsDescribed(t *testing.T) {
	described := page(t, "metrics.md")
	code, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`(one|describe|counted|scopeMetric)\("([a-z_]+)"`).FindAllStringSubmatch(string(code), -1)
	if len(calls) < 15 {
		t.Fatalf("%d metrics were found in the code", len(calls))
	}
	for _, call := range calls {
		name := "weir_" + call[2]
		if strings.HasPrefix(call[1], "counted") || call[1] == "scopeMetric" {
			name = "weir_scope_" + call[2]
		}
		if name != "weir_scope_" && !strings.Contains(described, "`"+name+"`") && !strings.Contains(described, "`"+name+"{") {
			t.Errorf("docs/formats/metrics.md does not describe %s", name)
		}
	}
}
