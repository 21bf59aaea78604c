// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/tc"
)

// qdiscs lists the qdiscs that Weir uses.
var qdiscs = []string{
	"netem", "fq", "codel", "fq_codel", "pie", "cake", "ets", "prio", "drr", "red", "htb", "tbf", "pfifo", "clsact", "dualpi2", "bpf",
}

// classifiers lists the tc classifiers that Weir uses.
var classifiers = []string{"flower", "bpf", "u32", "matchall"}

// Netem probes the kernel's network emulator.
func Netem() error { return Qdisc("netem") }

// Qdisc probes a qdisc by requesting one without options in a fresh namespace. "bpf" stands for
// qdiscs in BPF (struct_ops).
func Qdisc(kind string) error {
	if kind == "bpf" {
		return schBPF()
	}
	return need{namespaceCapabilities, qdiscOption(kind)}.explain("qdisc "+kind, dryTC(func(conn *tc.Conn) error {
		at := tc.Place{}
		if kind == "clsact" {
			at = tc.Place{Parent: tc.Clsact, Handle: tc.MakeHandle(0xffff, 0)}
		}
		return conn.Add(kind, "lo", at, nil)
	}))
}

func qdiscOption(kind string) string {
	switch kind {
	case "clsact":
		return "CONFIG_NET_SCH_INGRESS"
	case "pfifo":
		return "CONFIG_NET_SCHED"
	}
	return "CONFIG_NET_SCH_" + strings.ToUpper(kind)
}

// Classifier probes a tc classifier, in the same way.
func Classifier(kind string) error {
	return need{namespaceCapabilities, classifierOption(kind)}.explain("classifier "+kind, dryTC(func(conn *tc.Conn) error {
		if err := conn.AddClsact("lo"); err != nil {
			return err
		}
		return conn.AddFilter("lo", tc.ClsactIngress, 1, kind, nil)
	}))
}

func classifierOption(kind string) string { return "CONFIG_NET_CLS_" + strings.ToUpper(kind) }

// dryTC sends a request without options. The kernel checks the kind first: any answer except ENOENT
// means that it exists, for instance EINVAL if the kind requires options.
func dryTC(request func(*tc.Conn) error) error {
	return netns.Fresh(func() error {
		conn, err := tc.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		err = request(conn)
		if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || refused(err) {
			return err
		}
		return nil
	})
}
