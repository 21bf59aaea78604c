// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"weir/internal/testutil"
)

// collector is the OpenTelemetry collector's executable; the test is skipped without one.
func collector(t *testing.T) string {
	t.Helper()
	file := os.Getenv("WEIR_COLLECTOR")
	if file == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip("no OpenTelemetry collector: ", err)
		}
		file = filepath.Join(cache, "weir", "collector")
	}
	if _, err := os.Stat(file); err != nil {
		t.Skip("no OpenTelemetry collector (scripts/fetch-collector builds one): ", err)
	}
	return file
}

// received is a span as the collector writes it.
type received struct{ trace, parent, id, node string }

var spanText = regexp.MustCompile(`(?s)Trace ID +: (\w*)\n +Parent ID +: (\w*)\n +ID +: (\w*)\n(.*?)(?:Span #|\n\t\{)`)
var nodeText = regexp.MustCompile(`ioam\.node: Int\((\d+)\)`)

func spansIn(log string) (all []received) {
	for _, m := range spanText.FindAllStringSubmatch(log, -1) {
		s := received{trace: m[1], parent: m[2], id: m[3]}
		if node := nodeText.FindStringSubmatch(m[4]); node != nil {
			s.node = node[1]
		}
		all = append(all, s)
	}
	return all
}

// curl asks the last node of a domain, where a collector runs and answers: in it the spans of the
// nodes are in curl's trace, under its span.
func TestACollectorGetsHopsInAnApplicationsTrace(t *testing.T) {
	t.Setenv("COLLECTOR", collector(t))
	t.Setenv("CURL", testutil.Command(t, "curl"))
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	t.Setenv("TRACE", trace)
	t.Setenv("TRACEPARENT", "00-"+trace+"-"+span+"-01")
	got := box(t, `set -e
cat > collector.yaml <<C
receivers: {otlp: {protocols: {http: {endpoint: "[::]:4318"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
C
cat > first.yaml <<P
version: 1
ioam:
  node: 1
  interfaces: {right: {id: 11, roles: [ingress, egress], reserve: true}}
  namespaces: {123: {}}
scopes:
  server: {prefix: "2001:db8::/64", ioam: {namespace: 123, trace: [node, interfaces, timestamps]}}
P
cat > last.yaml <<P
version: 1
ioam:
  node: 2
  trace_context: true
  interfaces: {left: {id: 20, roles: [ingress, egress]}}
  namespaces: {123: {remove: true}}
scopes: {}
P
trap 'kill $collector $watch' EXIT
"$COLLECTOR" --config collector.yaml > log 2>&1 & collector=$!
await grep -q 'Everything is ready' log
ip netns add client
ip link add left type veth peer name right netns client
ip address add 2001:db8::2/64 dev left nodad
ip link set left up
"$WEIR" apply --quiet last.yaml
"$WEIR" ioam watch --quiet --otlp http://[::1]:4318/v1/traces > watched 2>&1 & watch=$!
nsenter --net=/run/netns/client unshare --mount sh -ec 'mount -t bpf bpf /sys/fs/bpf
export WEIR_RUN_DIR=/run/weir-client
ip address add 2001:db8::1/64 dev right nodad
ip link set right up
"$WEIR" apply --quiet first.yaml
"$CURL" -sS --max-time 60 -o answer -H "traceparent: $TRACEPARENT" "http://[2001:db8::2]:4318/"
"$WEIR" release --quiet'
await grep -q "$TRACE" log
kill -INT $watch
wait $watch
"$WEIR" release --quiet
kill $collector
wait $collector
trap - EXIT
cat log`)
	got.want(t, 0)
	spans := spansIn(got.stdout)
	under := map[string][]string{} // nodes by the span that they are under
	var joined []received
	for _, s := range spans {
		if s.trace == trace && s.parent == span {
			joined = append(joined, s)
		}
		if s.trace == trace && s.node != "" {
			under[s.parent] = append(under[s.parent], s.node)
		}
	}
	if len(joined) == 0 {
		t.Fatalf("of %d spans none is under curl's\n%s", len(spans), got.stdout)
	}
	for _, s := range joined {
		if !slices.Equal(under[s.id], []string{"1", "2"}) {
			t.Errorf("packet %s has the nodes %v", s.id, under[s.id])
		}
	}
	if len(joined) == len(spans) {
		t.Error("packets of no request are in curl's trace too")
	}
}
