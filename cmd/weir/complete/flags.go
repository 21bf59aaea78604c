// SPDX-License-Identifier: Apache-2.0

// Package complete offers shells the values of flags and arguments.
package complete

import (
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/weir/cli"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/tester/serve"
)

// completer lists completions for a word, each with a tab and a description. It omits values that
// cannot be determined.
type completer func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

const noFile = cobra.ShellCompDirectiveNoFileComp

// flagValues maps flags to completers. A name with a command path applies only to that command.
func flagValues(a *cli.App) map[string]completer {
	ports, loopback := completer(completePorts), words("127.0.0.1:9465\tloopback alone")
	all := map[string]completer{
		"format": words("text", "json"), "carrier": words("auto", "edt", "netem", "emulator"), "generator": words("weir", "iperf3"),
		"clock": words("synchronised", "relative"), "policy": words("skip", "catch-up"), "congestion": completeCongestion,
		"tests": several(func() []string {
			return []string{"throughput", "latency", "frame-loss", "back-to-back", "recovery", "reset"}
		}),
		"scope": func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return scopes(a, args)
		}, "lab": Lab, "from": ports, "to": ports, "peer": ports, "to-peer": ports,
		"cgroup": folders, "out": folders, "class": completeClass, "dscp": completeDSCP, "user": completeUser, "pid": completeProcess,
		"set": completeSet, "cpus": several(onlineCPUs), "sizes": several(frameSizes), "size": words("imix"), "metrics": loopback,
		"forwarder": completeForwarder, "daemon listen": words("127.0.0.1:9464\tloopback alone"), "tester replay speed": words("max"),
		"tester run rate": words("max"), "tester send rate": words("max"),
		"prove peer": Free, "ioam watch to": Free, "lend group": completeGroup, "lend per-user": Free, "lend most": Free,
		"class trace protocol": words("udp", "tcp", "both"), "class trace family": words("4", "6", "both"),
		"trace-per": words("packet", "flow"), "trace-every": Free, "tester serve port": Free,
		"tester serve model": words(serve.Models()...),
	}
	for _, name := range []string{"listen", "token", "ipfix", "otlp", "otlp-metrics", "limit", "ingress", "address", "source", "destination", "source-mac", "destination-mac",
		"rate", "speed", "gap", "duration", "final-time", "search-time", "resolution", "repetitions", "reset-command",
		"hops", "attempts", "wait", "most"} {
		all[name] = Free
	}
	for _, name := range []string{"socket", "textfile", "junit", "state", "token-file", "summary", "spec", "traffic", "users", "host-key"} {
		all[name] = files
	}
	all["tester capture"] = files
	all["rib"], all["ix plan without"], all["ix stop message"] = files, completeSponsor, Free
	for _, name := range []string{"name", "node", "cluster-listen", "server", "peer"} {
		all["fleet "+name], all["fleet serve "+name], all["fleet enroll "+name] = Free, Free, Free
	}
	all["fleet simulate loss"], all["dir"], all["credentials"], all["file"] = Free, folders, files, files
	for _, name := range []string{"archive", "organization", "node", "tls-listen"} {
		all["measure archive "+name], all["measure serve "+name] = Free, Free
	}
	all["measure archive spool"], all["measure serve spool"] = folders, folders
	all["measure serve cert"], all["measure serve key"], all["measure run bind"] = files, files, Free
	all["measure run direction"] = words("download", "upload", "both")
	all["measure serve client-address"] = words("full", "prefix", "none")
	all["measure run test"], all["measure run cc"] = words("ndt7", "msak", "latency"), completeCongestion
	for _, name := range []string{"acme", "acme-directory", "latency-listen", "token-machine"} {
		all["measure serve "+name] = Free
	}
	for _, name := range []string{"acme-ca", "token-key"} {
		all["measure serve "+name] = files
	}
	all["measure serve acme-cache"] = folders
	for _, name := range []string{"plan", "apply", "status", "remove"} {
		all["fleet "+name+" server"] = Free
	}
	return all
}

// Register registers the completers of flags.
func Register(a *cli.App, command *cobra.Command) { completeFlags(command, flagValues(a)) }

func completeFlags(command *cobra.Command, values map[string]completer) {
	path := strings.Fields(command.CommandPath())[1:]
	command.LocalFlags().VisitAll(func(f *pflag.Flag) {
		for i := range len(path) + 1 {
			// The longest matching path wins.
			name := strings.TrimSpace(strings.Join(path[:len(path)-i], " ") + " " + f.Name)
			if offer := values[name]; offer != nil {
				// The only error is that a flag was given one before.
				_ = command.RegisterFlagCompletionFunc(f.Name, offer)
				return
			}
		}
	})
	for _, sub := range command.Commands() {
		completeFlags(sub, values)
	}
}

// words offers a fixed choice.
func words(all ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return all, noFile }
}

func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Policy offers files for the one argument.
func Policy(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFile
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// scopes offers the scopes of the given policy file, or of the active policy.
func scopes(a *cli.App, args []string) (names []string, _ cobra.ShellCompDirective) {
	e, err := a.Engine()
	if err != nil {
		return nil, noFile
	}
	if len(args) > 0 {
		p, err := e.Language.Load(args[0])
		if err != nil {
			return nil, noFile
		}
		for _, s := range p.Scopes {
			names = append(names, s.Name+"\t"+s.Selector.String())
		}
		return names, noFile
	}
	status, err := e.Status()
	if err != nil {
		return nil, noFile
	}
	for _, s := range status.Scopes {
		names = append(names, s.Name+"\t"+s.Selector.String())
	}
	return names, noFile
}

func Lab(*cobra.Command, []string, string) (ids []string, _ cobra.ShellCompDirective) {
	list, err := instance.List()
	if err != nil {
		return nil, noFile
	}
	for _, lab := range list {
		ids = append(ids, lab.ID+"\t"+lab.Scenario)
	}
	return ids, noFile
}

// completeCongestion offers the loaded controls.
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
