// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/fault"
)

const (
	ends    = "{5: {remove: true}}"
	forward = "flows: [{kind: udp, family: 6, from: a, to: b, rate: 1Mbit}]"
	frames  = "streams: [{name: f, family: 6, from: a, to: b, frame_size: 1000, rate: 10}]"
	beyond  = "hosts: [a, b]"
)

// host makes b the last node.
func host(roles, namespaces string) string {
	return "hosts:\n  - {name: a}\n  - {name: b, ioam: {node: 9, interfaces: {out: {id: 9, roles: [" + roles + "]}}, namespaces: " + namespaces + "}}"
}

// Traffic that IOAM blocks completely is a mistake of the scenario, with advice.
func TestOptionsEndBeforeTheDomainDoes(t *testing.T) {
	open := "out: {id: 4, roles: [egress]}"
	for _, c := range []struct {
		name      string
		change    []string
		want, try string
	}{
		{"at the border", []string{ends, "{5: {}}"},
			`f.yaml:10:20: routers[0].ioam.encapsulate: every packet of flow "udp" gets options, and s drops them where they would leave by "out", a border of the domain`,
			`end them at s: namespaces: {5: {remove: true}}; or give "out" the role egress`},
		{"another namespace ends", []string{"namespaces: " + ends, "namespaces: {6: {remove: true}}"},
			`s drops them where they would leave by "out"`, "namespaces: {5: {remove: true}}"},
		{"where they come in", []string{"{id: 3, roles: [ingress, egress]}", "{id: 3}"},
			`s drops them where they come in by "path"`, `give "path" of s the role ingress, and namespaces: {5: {remove: true}}, if they end there`},
		{"by a link that is not listed", []string{"path: {id: 3, roles: [ingress, egress]}, ", ""},
			`s drops them where they would leave by "out"`, `list "path" among the interfaces of s, with the role ingress`},
		{"at the receiver", []string{ends, "{5: {}}", "out: {id: 4}", open, beyond, host("", ends)},
			`b drops them where they come in by "out"`, `give "out" of b the role ingress, and namespaces: {5: {remove: true}}, since it is the last node`},
		{"several", []string{ends, "{5: {}, 6: {}}", "namespaces: {5: {}}", "namespaces: {5: {}, 6: {}}", "trace: [node]", "trace: [node], copies: 2, consecutive: true"},
			"s drops them", "namespaces: {5: {remove: true}, 6: {remove: true}}"},
		{"answers", []string{"namespaces: " + ends, "namespaces: " + ends + "\n      encapsulate: [{to: a, namespace: 5, trace: [node]}]", "kind: udp, family: 6", "kind: bulk, family: 6"},
			`routers[1].ioam.encapsulate: every packet of flow "bulk" gets options, and r drops them where they would leave by "in"`, "end them at r"},
		{"frames that end at their host", []string{ends, "{5: {}}", "out: {id: 4}", open, forward, frames, beyond, host("ingress", ends)},
			`every packet of stream "f" gets options, and b gets them, where the frame tester does not look behind options`, "end them on the way, at s at the latest: namespaces: {5: {remove: true}}"},
		{"frames", []string{forward, frames}, "", ""},
		{"the receiver ends them", []string{ends, "{5: {}}", "out: {id: 4}", open, beyond, host("ingress", ends)}, "", ""},
		{"a receiver that skips them", []string{ends, "{5: {}}", "out: {id: 4}", open}, "", ""},
		{"a fraction of the packets", []string{ends, "{5: {}}", "trace: [node]", "trace: [node], every: 2"}, "", ""},
		{"another protocol", []string{ends, "{5: {}}", "trace: [node]", "trace: [node], protocol: tcp"}, "", ""},
		{"another DSCP", []string{ends, "{5: {}}", "trace: [node]", "trace: [node], dscp: 10"}, "", ""},
		{"one source", []string{ends, "{5: {}}", "trace: [node]", "trace: [node], source: \"2001:db8::/32\""}, "", ""},
		{"one port", []string{ends, "{5: {}}", "trace: [node]", "trace: [node], destination_port: 80"}, "", ""},
		{"IPv4", []string{ends, "{5: {}}", "family: 6", "family: 4"}, "", ""},
		{"registered", []string{ends, "{5: {}}", "node: 7", "node: 7\n      mode: registered"}, "", ""},
		{"passive behind", []string{ends, "{5: {}}", "node: 8", "node: 8\n      mode: passive"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := replaced(t, c.change...)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var f *fault.Error
			if err == nil || !errors.As(err, &f) || fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v\nwant %s", err, c.want)
			}
			if !strings.Contains(f.Try, c.try) {
				t.Errorf("try %q, want %q", f.Try, c.try)
			}
		})
	}
}
