// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/kernel/netns"
	"weir/lab/instance"
)

// completer lists what a shell may offer for a word, each with a tab and what it is; what cannot be
// found out is left out.
type completer func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

const noFile = cobra.ShellCompDirectiveNoFileComp

// complete gives flags what a shell may offer for them: by their names, which mean the same in
// every command.
func complete(a *app, command *cobra.Command) {
	ports := completer(completePorts)
	byName := map[string]completer{
		"format": words("text", "json"), "carrier": words("auto", "netem", "emulator"), "generator": words("weir", "iperf3"),
		"clock": words("synchronised", "relative"), "policy": words("skip", "catch-up"), "congestion": completeCongestion,
		"tests": words("throughput", "latency", "frame-loss", "back-to-back", "recovery", "reset"),
		"scope": a.completeScope, "lab": completeLab, "from": ports, "to": ports, "peer": ports, "to-peer": ports,
		"cgroup": folders, "out": folders,
	}
	if command.Name() == "prove" {
		delete(byName, "peer") // an address
	}
	for name, offer := range byName {
		if command.LocalFlags().Lookup(name) == nil && command.PersistentFlags().Lookup(name) == nil {
			continue
		}
		// The only error is that a flag was given one before.
		_ = command.RegisterFlagCompletionFunc(name, offer)
	}
	for _, sub := range command.Commands() {
		complete(a, sub)
	}
}

// words offers a fixed choice.
func words(all ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return all, noFile }
}

func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completePolicy offers files for the one argument.
func completePolicy(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFile
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeScope offers the scopes of the policy file that is named, or of what is in force.
func (a *app) completeScope(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	engine, err := a.engine()
	if err != nil {
		return nil, noFile
	}
	if len(args) > 0 {
		p, err := engine.Language.Load(args[0])
		if err != nil {
			return nil, noFile
		}
		for _, s := range p.Scopes {
			names = append(names, s.Name+"\t"+s.Selector.String())
		}
		return names, noFile
	}
	status, err := engine.Status()
	if err != nil {
		return nil, noFile
	}
	for _, s := range status.Scopes {
		names = append(names, s.Name+"\t"+s.Selector.String())
	}
	return names, noFile
}

func completeLab(*cobra.Command, []string, string) (ids []string, _ cobra.ShellCompDirective) {
	list, err := instance.List()
	if err != nil {
		return nil, noFile
	}
	for _, lab := range list {
		ids = append(ids, lab.ID+"\t"+lab.Scenario)
	}
	return ids, noFile
}

// completeCongestion offers what the kernel has loaded.
func completeCongestion(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil, noFile
	}
	return strings.Fields(string(text)), noFile
}

// completePorts offers devices, and namespaces with a colon behind and then the devices in them.
func completePorts(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if name, _, inside := strings.Cut(word, ":"); inside {
		ns, err := netns.Open(name)
		if err != nil {
			return nil, noFile
		}
		defer func() { _ = ns.Close() }()
		var found []string
		if err := ns.Do(func() error { found = devices(name + ":"); return nil }); err != nil {
			return nil, noFile
		}
		return found, noFile
	}
	all := devices("")
	namespaces, err := netns.List("")
	if err != nil {
		return all, noFile
	}
	for _, name := range namespaces {
		all = append(all, name+":")
	}
	return all, noFile | cobra.ShellCompDirectiveNoSpace
}

// devices lists the devices of the current namespace that frames can leave by, each behind prefix.
func devices(prefix string) (names []string) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, d := range all {
		if d.Flags&net.FlagLoopback == 0 {
			names = append(names, prefix+d.Name)
		}
	}
	slices.Sort(names)
	return names
}
