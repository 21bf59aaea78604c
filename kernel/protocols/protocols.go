// SPDX-License-Identifier: Apache-2.0

// Package protocols reads the counters of IP, TCP, UDP and ICMP of a network namespace
// (proc_pid_net(5)).
package protocols

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"weir/kernel/netns"
)

// Counters holds totals since the creation of the namespace by the kernel's names:
// "Ip.OutRequests", "TcpExt.TCPBacklogDrop", "Ip6.InReceives". An unknown name reads as 0.
type Counters map[string]uint64

// Read reads all counters of ns; nil is the calling thread's own namespace.
func Read(ns *netns.Namespace) (Counters, error) {
	counters := Counters{}
	err := ns.Do(func() error {
		for _, file := range []string{"snmp", "netstat"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err == nil {
				err = counters.parsePairs(text)
			}
			if err != nil {
				return err
			}
		}
		text, err := os.ReadFile("/proc/thread-self/net/snmp6")
		if os.IsNotExist(err) { // a kernel without IPv6
			return nil
		}
		if err != nil {
			return err
		}
		return counters.parseSix(text)
	})
	if err != nil {
		return nil, fmt.Errorf("read protocol counters: %w", err)
	}
	return counters, nil
}

// parsePairs parses pairs of lines, names then values, both after the protocol's name and a colon.
func (c Counters) parsePairs(text []byte) error {
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		if len(names) != len(fields) || names[0] != fields[0] {
			return fmt.Errorf("names %q and values %q do not belong together", names[0], fields[0])
		}
		protocol := strings.TrimSuffix(names[0], ":")
		for i, name := range names[1:] {
			value, err := strconv.ParseInt(fields[i+1], 10, 64) // MaxConn is -1
			if err != nil {
				unsigned, err := strconv.ParseUint(fields[i+1], 10, 64)
				if err != nil {
					return err
				}
				value = int64(unsigned)
			}
			c[protocol+"."+name] = uint64(value)
		}
		names = nil
	}
	return nil
}

// parseSix parses lines such as "Ip6InReceives 7" and names them like the others.
func (c Counters) parseSix(text []byte) error {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			continue
		}
		value, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return err
		}
		protocol, name, found := strings.Cut(fields[0], "6")
		if found {
			c[protocol+"6."+name] = value
		}
	}
	return nil
}

// Minus returns the difference to earlier counters.
func (c Counters) Minus(before Counters) Counters {
	since := make(Counters, len(c))
	for name, value := range c {
		since[name] = value - before[name]
	}
	return since
}

// Sum adds up counters.
func (c Counters) Sum(names ...string) (sum uint64) {
	for _, name := range names {
		sum += c[name]
	}
	return sum
}
