// SPDX-License-Identifier: Apache-2.0

// Package run has the commands weir run, which runs one command under limits or in a class, and
// weir lend, which lends the privilege for it to users.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

// runFlags name the limit of each direction.
var runFlags = [...]string{direction.Egress: "limit", direction.Ingress: "ingress"}

// runOptions are the flags of weir run.
type runOptions struct {
	rates   [len(direction.Both)]string
	shadow  bool
	class   string
	summary string
	user    string
	pid     int
}

// given returns the options of the command line, or an example.
func (o runOptions) given() string {
	var all []string
	for of, flag := range runFlags {
		if o.rates[of] != "" {
			all = append(all, "--"+flag+" "+o.rates[of])
		}
	}
	if o.class != "" {
		all = append(all, "--class "+o.class)
	}
	if len(all) == 0 {
		return "--limit 100Mbit"
	}
	return strings.Join(all, " ")
}

// Command returns the command weir run.
func Command(a *cli.App) *cobra.Command {
	var options runOptions
	command := &cobra.Command{
		Use:   "run {--limit RATE | --class CLASS} -- COMMAND [ARGUMENT...]",
		Short: "Run one command under a bandwidth limit or in a class of service, without any file",
		Long: `Run one command, and everything it starts, under a bandwidth limit that eBPF enforces
without a queue: TCP is paced below the rate, ECN-capable packets are marked, other
connections reduce their window, and only the excess is dropped.

With --class lbe (less than best effort), the command yields to all other traffic. Its
packets have DSCP 1 (RFC 8622), which routers with classes serve last. Its new TCP
connections use the congestion control scavenger, which yields without support of
routers. Downloads yield too, with any congestion control of the server (rLEDBAT,
RFC 9840). UDP and QUIC are limited to the rate at which scavenger would send, measured
with echo requests to the peer; without replies, the limit is 256 kbit/s. The class CS1
(DSCP 8, which RFC 8622 replaces) has the same effect. Any other class only sets the
DSCP. Weir marks packets only on devices that exist when the command starts.

With --pid, a running process and its descendants are limited instead of a command. With
--format json, the counters are printed on standard error, because standard output
belongs to the command. The exit status is that of the command. Loopback traffic is not
limited. Limit and class end with this process. Signals are forwarded to the command.

weir run requires root. An administrator can lend --limit, --ingress and --class lbe to
other users (weir lend). The command runs in a cgroup below the current one, so the
limits of the current cgroup also apply.`,
		Example: `  weir run --limit 100Mbit -- rsync -a /data backup:/data
  weir run --limit 20Mbit --ingress 50Mbit -- ./fetch-mirror
  weir run --class lbe -- rsync -a /data backup:/data
  weir run --limit 1Gbit --shadow -- ./job     count only
  weir run --limit 50Mbit --user backup -- restic backup /home
  weir run --limit 5Mbit --pid 4711                limit until Ctrl-C
  weir status                                  shows the commands under limits and in classes`,
		Args: func(command *cobra.Command, args []string) error {
			if (len(args) == 0) == (options.pid == 0) {
				return fault.New(fault.Usage, "as in: weir run "+options.given()+" -- rsync -a /data backup:/data", "give either a command or --pid")
			}
			if options.pid != 0 && options.user != "" {
				return fault.New(fault.Usage, "leave one of them out", "--user is for a command, and --pid for a process that runs already")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return runLimited(a, command, args, options) },
	}
	command.Flags().StringVar(&options.rates[direction.Egress], runFlags[direction.Egress], "", "maximum sending rate of the command, such as 100Mbit")
	command.Flags().StringVar(&options.rates[direction.Ingress], runFlags[direction.Ingress], "", "maximum receiving rate of the command: marks ECN-capable packets, drops others")
	command.Flags().StringVar(&options.class, "class", "", "class of service of its packets: lbe, best-effort, premium, network-control, or a DSCP by name or number")
	command.Flags().BoolVar(&options.shadow, "shadow", false, "only count the packets that the limit or class would affect")
	command.Flags().StringVar(&options.summary, "summary", "", "file for the counters, as JSON")
	command.Flags().StringVar(&options.user, "user", "", "run the command as this user (name or number), with a new environment (to add variables: env NAME=VALUE COMMAND)")
	command.Flags().IntVar(&options.pid, "pid", 0, "limit the process with this ID and its descendants instead of a command")
	command.Flags().SetInterspersed(false)
	return command
}

// hangups returns the signals beside SIGINT and SIGTERM that reach the command, unless they were
// ignored at the start, as by nohup.
func hangups() (all []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

func runLimited(a *cli.App, command *cobra.Command, args []string, options runOptions) error {
	limits := map[direction.Direction]*police.Limit{}
	for of, flag := range runFlags {
		l, err := limitFlag("--"+flag, options.rates[of], options.shadow)
		if err != nil {
			return err
		}
		if l != nil {
			limits[direction.Direction(of)] = l
		}
	}
	given, treatments, err := classFlag(a, options.class)
	if err != nil {
		return err
	}
	if len(limits) == 0 && len(treatments) == 0 {
		return fault.New(fault.Usage, "give --limit, --ingress or --class, as in --limit 100Mbit", "neither a limit nor a class is given")
	}
	if len(limits) == 0 && options.shadow {
		return fault.New(fault.Usage, "leave it out, or give --limit too", "--shadow is for limits")
	}
	if options.summary != "" {
		if err := cli.CheckFile("--summary", options.summary); err != nil {
			return err
		}
	}
	work := scoped.Command{Args: args, PID: options.pid, Limits: limits, Treatments: treatments, Notify: func(message string) { a.Say("%s", message) }}
	if a.Format == "text" {
		work.Active = func(modes map[direction.Direction]scoped.Mode) { a.Say("%s", describeModes(limits, modes)) }
	}
	if given != nil {
		work.Class = given.Class
	}
	if options.user != "" {
		var err error
		if work.User, err = findUser(options.user); err != nil {
			return err
		}
	}
	ctx, all := command.Context(), hangups()
	if len(all) > 0 {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, all...)
		defer stop()
	}
	if options.pid == 0 {
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, append(all, syscall.SIGINT, syscall.SIGTERM)...)
		defer signal.Stop(signals)
		work.Signals = signals
	}
	outcome, err := runOrBorrow(ctx, work, given)
	if err != nil {
		return err
	}
	if err := summarize(a, outcome, given, options.shadow, options.summary); err != nil {
		return err
	}
	if outcome.Status != 0 {
		return &cli.ExitStatus{Status: outcome.Status}
	}
	return nil
}

// describeModes describes the active limits in one line.
func describeModes(limits map[direction.Direction]*police.Limit, modes map[direction.Direction]scoped.Mode) string {
	verbs := map[string]string{police.ModePolice: "policed", police.ModeShape: "shaped", scoped.ModeShadow: "counted only"}
	var all []string
	for _, d := range direction.Both {
		if l := limits[d]; l != nil {
			text := fmt.Sprintf("%s %s, %s", d, l.Rate, verbs[modes[d].Mode])
			if reason := modes[d].Reason; reason != "" {
				text += " since " + reason
			}
			all = append(all, text)
		}
	}
	return "limit active: " + strings.Join(all, "; ")
}

// runOrBorrow runs the command with the rights of root, or with lent rights.
func runOrBorrow(ctx context.Context, work scoped.Command, given *classed) (scoped.Outcome, error) {
	if _, err := os.Stat(scoped.Socket()); os.Geteuid() == 0 || err != nil {
		return scoped.Run(ctx, work)
	}
	outcome, did, err := scoped.RunLent(ctx, work, scoped.Socket())
	if err == nil && given != nil && did != nil {
		err = json.Unmarshal(did, given)
	}
	return outcome, err
}

// findUser finds a user by name or number.
func findUser(text string) (*user.User, error) {
	found, err := user.Lookup(text)
	if err != nil {
		found, err = user.LookupId(text)
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "give the name of a user of this host, or its number", "--user: there is no user %q", text)
	}
	return found, nil
}

// limitFlag reads one of the two rates; nil means that it is not given.
func limitFlag(flag, text string, shadow bool) (*police.Limit, error) {
	if text == "" {
		return nil, nil
	}
	rate, err := units.ParseBitRate(text)
	if err == nil {
		err = police.Limit{Rate: rate}.Check()
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "write a rate such as 100Mbit", "%s: %w", flag, err)
	}
	return &police.Limit{Rate: rate, Shadow: shadow}, nil
}

// summarize prints the counters on standard error, because standard output is the command's.
func summarize(a *cli.App, outcome scoped.Outcome, given *classed, shadow bool, file string) error {
	done := "%s: %s at %s; %d packets marked, %d reductions, %d dropped"
	if shadow {
		done = "%s: %s at %s; %d packets would have been marked, %d reductions made, %d packets dropped"
	}
	out := map[string]any{"format": "weir-run/1", "status": outcome.Status, "elapsed_ns": outcome.Elapsed}
	for _, of := range direction.Both {
		c, limited := outcome.Counted[of]
		if !limited {
			continue
		}
		out[of.String()] = c
		if a.Format == "text" {
			rate := units.BitRate(float64(c.Bytes) * 8 / max(outcome.Elapsed, time.Millisecond).Seconds())
			a.Say(done, [...]string{direction.Egress: "sent", direction.Ingress: "received"}[of], units.ByteSize(c.Bytes), rate, c.Marked, c.Reduced, c.Dropped)
		}
	}
	if given != nil {
		out["class"] = given
		if a.Format == "text" {
			a.Say("%s", given)
		}
	}
	if file == "" && a.Format == "text" {
		return nil
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	if a.Format == "json" {
		fmt.Fprintf(a.Stderr, "%s\n", text)
	}
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}
