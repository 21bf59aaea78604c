// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/core/policy"
	"weir/core/selector"
)

func parse(t *testing.T, text string) (*policy.Policy, error) {
	t.Helper()
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{grammar()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return language.Parse("policy", []byte(text))
}

func TestExamplesAreValid(t *testing.T) {
	for _, name := range []string{"README.md", filepath.Join("..", "..", "docs", "formats", "ioam.md")} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s: no example", name)
		}
		for _, block := range blocks {
			if p, err := parse(t, block[1]); err != nil || len(p.Warnings) > 0 {
				t.Errorf("%s: %v\n%s", name, err, block[1])
			}
		}
	}
}

// Every error names the key with the mistake.
func TestMistakesAreRefused(t *testing.T) {
	const node = "version: 1\nioam: {node: 1, interfaces: {eth0: {roles: [egress]}}, namespaces: {5: {}}}\n"
	scope := func(keys string) string {
		return node + `scopes: {a: {prefix: "2001:db8::/32", ioam: {` + keys + "}}}\n"
	}
	for _, test := range []struct{ text, want string }{
		{"version: 1\nscopes: {a: {prefix: \"::/0\", ioam: {trace: [node]}}}\n", "add a section ioam"},
		{"version: 1\nioam: {node: 0x1000000}\nscopes: {}\n", "more than 24 bits"},
		{"version: 1\nioam: {node: 0}\nscopes: {}\n", "2:14: ioam.node: 0 is the id of a node without one in traces"},
		{"version: 1\nioam: {node: 0xffffff}\nscopes: {}\n", "ioam.node: 0xffffff, all ones, means an unknown id"},
		{"version: 1\nioam: {node: 1, wide: 0}\nscopes: {}\n", "2:23: ioam.wide: 0 is the id of a node without one"},
		{"version: 1\nioam: {node: 1, wide: 0xffffffffffffff}\nscopes: {}\n", "ioam.wide: 0xffffffffffffff, all ones"},
		{"version: 1\nioam: {node: 1, wide: 0x100000000000000}\nscopes: {}\n", "more than 56 bits"},
		{"version: 1\nioam: {node: 1, interfaces: {a: {id: 7}, b: {id: 7}}}\nscopes: {}\n", "2:50: ioam.interfaces.b.id: 7 is also the id of a"},
		{"version: 1\nioam: {node: 1, interfaces: {a: {id: 1, wide: 7}, b: {id: 2, wide: 7}}}\nscopes: {}\n", "ioam.interfaces.b.wide: 7 is also the wide id of a"},
		{"version: 1\nioam: {node: 1, interfaces: {eth0: {roles: [inside]}}}\nscopes: {}\n", "neither ingress nor egress"},
		{"version: 1\nioam: {node: 1, namespaces: {70000: {}}}\nscopes: {}\n", "no namespace"},
		{"version: 1\nioam: {node: 1, namespaces: {1: {strict: true}}}\nscopes: {}\n", "give remove and proof"},
		{"version: 1\nioam: {node: 1, flows: 0}\nscopes: {}\n", "not 1 to 1048576"},
		{"version: 1\nioam: {node: 1, flows: 2000000}\nscopes: {}\n", "not 1 to 1048576"},
		{"version: 1\nioam: {node: 1, address: fe80::1}\nscopes: {}\n", "no global unicast IPv6 address"},
		{"version: 1\nioam: {node: 1, address: 192.0.2.1}\nscopes: {}\n", "no global unicast IPv6 address"},
		{"version: 1\nioam: {node: 1, flag_share: 1}\nscopes: {}\n", "no part of an interface"},
		{"version: 1\nioam: {node: 1, namespaces: {1: {loopback: true}}}\nscopes: {}\n", "give ioam.address"},
		{"version: 1\nioam: {node: 1, trace_context: true}\nscopes: {}\n", "no namespace ends here"},
		{"version: 1\nioam: {node: 1, context_schema: 0}\nscopes: {}\n", "ioam.context_schema: 0x0 is no schema"},
		{"version: 1\nioam: {node: 1, context_schema: 0xffffff}\nscopes: {}\n", "ioam.context_schema: 0xffffff is no schema"},
		{"version: 1\nioam: {node: 1, namespaces: {1: {schema: 0x573343}}}\nscopes: {}\n", "0x573343 is that of contexts of sockets"},
		{strings.Replace(scope("trace: [wide_node, wide_data, wide_interfaces], nodes: 10"), "node: 1", "node: 1, socket_context: true", 1),
			"with the context of a socket (ioam.socket_context): trace 0x00e002 of 10 nodes in namespace 0 is longer than 255 octets"},
		{scope("trace: [node], namespace: 5, loopback: true"), "namespace 5 has no loopback"},
		{scope("trace: [node, data], namespace: 5, loopback: true"), "trace: [node] and nothing else"},
		{scope("trace: [node], edge: [sequence], namespace: 5, loopback: true"), "trace: [node] and nothing else"},
		{scope("edge: [sequence], namespace: 5, active: true"), "a flag of traces"},
		{scope("trace: [node], namespace: 5, tunnel: \"2001:db8::1\""), "give ioam.address"},
		{scope("trace: [node], namespace: 5, tunnel: beta"), "no global unicast IPv6 address"},
		{scope(""), "0 options"},
		{scope("trace: [nodes]"), `no field "nodes"`},
		{scope("trace: [node], namespace: 6"), "does not know namespace 6"},
		{scope("trace: [node], nodes: 200"), "1 to 127 nodes"},
		{scope("trace: [wide_node, wide_data, wide_interfaces], nodes: 30"), "longer than"},
		{scope("trace: [node], nodes: 62"), "is longer than 255 octets"},
		{scope("proof: true, namespace: 5"), "has no proof"},
		{scope("edge: [sequence, sequence32]"), "not both"},
		{scope("trace: [node], every: 3/2"), "is no fraction"},
		{scope("trace: [node], every: 3, flows: 0.5"), "give one of"},
		{scope("trace: [node], probability: 2"), "no share"},
		{scope("trace: [node], dscp: 64"), "0 to 63"},
		{scope("trace: [node], protocol: quic"), "neither tcp"},
		{scope("trace: [node], port: 65536"), "port: 65536 is no port: give 1 to 65535"},
		{scope("trace: [node], source_port: 0"), "source_port: 0 is no port: give 1 to 65535"},
		{scope("trace: [node], destination_port: 70000"), "destination_port: 70000 is no port"},
		{scope("trace: [node], protocol: icmp, destination_port: 80"), "destination_port: packets of protocol icmp have no ports: give protocol: tcp or udp"},
		{scope("trace: [node], port: 80, source_port: 80"), "port: it is that of either end: give it alone, or source_port"},
		{scope("trace: [node], source: 192.0.2.0/24"), "source: 192.0.2.0/24 is of IPv4, which has no IOAM"},
		{scope("trace: [node], source: \"::ffff:192.0.2.1\""), "is of IPv4"},
		{scope("trace: [node], source: \"2001:db8::1/32\""), "write 2001:db8::/32"},
		{scope("trace: [node], source: beta"), `source: "beta" is not a prefix: write it as`},
		{scope("trace: [node], source: \"fe80::1%eth0\""), "is not a prefix"},
		{scope("trace: [0x000800]"), "no field"},
	} {
		if _, err := parse(t, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}

// The minimum and the maximum id are valid, and interfaces without ids need not differ.
func TestIDsAtTheirBounds(t *testing.T) {
	for _, ids := range []string{"node: 1", "node: 0xfffffe, wide: 0xfffffffffffffe", "node: 1, interfaces: {a: {}, b: {}, c: {id: 65535}, d: {id: 0}}"} {
		if _, err := parse(t, "version: 1\nioam: {"+ids+"}\nscopes: {}\n"); err != nil {
			t.Errorf("%s: %v", ids, err)
		}
	}
}

// Probable mistakes cause warnings.
func TestWarnings(t *testing.T) {
	option := "{trace: [node], nodes: 1}"
	p, err := parse(t, "version: 1\nioam: {node: 1}\nscopes: {a: {prefix: \"::/0\", ioam: {options: ["+strings.Repeat(option+", ", 8)+option+"]}}}\n")
	if err != nil || len(p.Warnings) != 2 || !strings.Contains(p.Warnings[0], "max_hbh_opts_number") || !strings.Contains(p.Warnings[1], "no interface has the role egress") {
		t.Errorf("%v, %q", err, p.Warnings)
	}
	p, err = parse(t, "version: 1\nioam: {node: 1, socket_context: true, interfaces: {eth0: {roles: [egress]}}}\nscopes: {a: {prefix: \"::/0\", ioam: {edge: [sequence]}}}\n")
	if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "no scope has a trace that could carry") {
		t.Errorf("%v, %q", err, p.Warnings)
	}
}
