// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"io"
	"log/slog"
	"os/user"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/class/datagrams"
	"weir/modules/limit/scoped"
	"weir/modules/limit/scoped/lend"
)

// Bounds of loans: each limit has a process of 15 MB.
const (
	lentPerUser, lentAtMost = 4, 32
	maxLent                 = 256
)

// LendCommand returns the command weir lend.
func LendCommand(a *cli.App) *cobra.Command {
	lender := &lend.Lender{}
	group, everyone := "", false
	command := &cobra.Command{
		Use:   "lend {--group GROUP | --everyone}",
		Short: "Let users without root run commands under limits and in less than best effort",
		Long: `Let members of a group, or all users, use "weir run" without root. The command listens on
a unix socket for their requests. A user's command then runs in a cgroup below the
user's current cgroup, under the requested limit, and with --class lbe as less than best
effort.

No other rights are lent. A limit and this class restrict only the requesting user, and
the limits of the enclosing cgroups still apply. The lent rights end when the user's
command ends, when "weir run" ends (also after kill -9), or when this process ends. A
command that is still running then continues without limit and class. "weir lend" runs
in the foreground; the package contains weir-lend.service for the group weir.`,
		Example: `  sudo groupadd --system weir && sudo usermod -aG weir alice
  sudo weir lend --group weir
  weir run --class lbe -- rsync -a /data backup:/data      as alice, after her next login`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if lender.Group, err = lendTo(group, everyone); err != nil {
				return err
			}
			if lender.PerUser < 1 || lender.Max < lender.PerUser || lender.Max > maxLent {
				return fault.New(fault.Usage, "as in --per-user 4 --most 32", "--per-user %d and --most %d are not 1 to %d, the first at most the second", lender.PerUser, lender.Max, maxLent)
			}
			level := slog.LevelInfo
			if a.Quiet {
				level = slog.LevelWarn
			}
			lender.Log = slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
			lent, err := openLent(lender.Max)
			if err != nil {
				return err
			}
			if lent.without != nil {
				lender.Log.Warn("connections keep the host's congestion control", "reason", lent.without)
			}
			lender.Class = lent.class
			return errors.Join(lender.Run(command.Context()), lent.close())
		},
	}
	flags := command.Flags()
	flags.StringVar(&group, "group", "", "group of users with access, by name or number")
	flags.BoolVar(&everyone, "everyone", false, "give access to all users of this host")
	flags.StringVar(&lender.Socket, "socket", scoped.Socket(), "unix socket in an existing folder; weir run uses the default path")
	flags.IntVar(&lender.PerUser, "per-user", lentPerUser, "maximum number of concurrent commands per user")
	flags.IntVar(&lender.Max, "most", lentAtMost, "maximum number of concurrent commands of all users")
	return command
}

// lendTo returns the group with access.
func lendTo(group string, everyone bool) (int, error) {
	if everyone == (group != "") {
		return 0, fault.New(fault.Usage, "as in --group weir", "give either --group or --everyone")
	}
	if everyone {
		return lend.Everyone, nil
	}
	if number, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(number), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fault.New(fault.Usage, "make it: groupadd --system "+group, "--group: there is no group %q", group)
	}
	return strconv.Atoi(found.Gid)
}

// lent holds the objects shared by all commands of users: one program at the devices and one
// congestion control.
type lent struct {
	marks     *class.Marks
	scavenger *cc.Installed // nil without kernel support, for the reason in without
	without   error
}

func openLent(most int) (*lent, error) {
	marks, err := class.OpenMarks(most)
	if err != nil {
		return nil, err
	}
	l := &lent{marks: marks}
	l.scavenger, l.without = installScavenger()
	if fault.Of(l.without) == fault.Permission {
		return nil, errors.Join(l.without, marks.Close())
	}
	return l, nil
}

func (l *lent) close() error {
	if l.scavenger != nil {
		return errors.Join(l.scavenger.Close(), l.marks.Close())
	}
	return l.marks.Close()
}

// class returns less than best effort (RFC 8622), which ranks below any class of the user.
func (l *lent) class(name string) (*lend.Class, error) {
	codepoint, err := dscp.ParseDSCP(name)
	if err != nil {
		return nil, fault.New(fault.Usage, "as in --class lbe", "--class: %w", err)
	}
	if codepoint != dscp.LowEffort {
		return nil, fault.New(fault.Permission, "ask for --class lbe, or run it as root", "only less than best effort (lbe) is lent, and not %s", codepoint)
	}
	given := &classed{Class: name, DSCP: codepoint}
	var marked *class.Marked
	mark := func(group string) (_ io.Closer, err error) {
		marked, err = l.marks.Add(group, codepoint)
		return marked, err
	}
	of := &lend.Class{}
	var held *cc.Receiver
	hold := func(group string) (_ io.Closer, err error) {
		if held, err = cc.Receive(group, "scavenger"); err == nil {
			return held, nil
		}
		if fault.Of(err) == fault.Permission {
			return nil, err
		}
		of.Notes = append(of.Notes, keepsWindow(err)) // its uploads still yield
		return nothing{}, nil
	}
	var datagram *datagrams.Held
	holdDatagrams := func(group string) (_ io.Closer, err error) {
		if datagram, err = datagrams.Hold(group, codepoint); err == nil {
			if err := datagram.Unmeasured(); err != nil {
				of.Notes = append(of.Notes, slowDatagrams(err))
			}
			return datagram, nil
		}
		if fault.Of(err) == fault.Permission {
			return nil, err
		}
		of.Notes = append(of.Notes, keepsDatagrams(err))
		return nothing{}, nil
	}
	of.Treatments = []scoped.Treatment{mark, hold, holdDatagrams}
	of.Done = func() any {
		given.Counts, _ = marked.Counts()
		if datagram != nil {
			_ = given.countedDatagrams(datagram)
		}
		if held != nil {
			_ = given.counted(held)
		}
		return given
	}
	if l.scavenger == nil {
		of.Notes = append(of.Notes, keepsControl(l.without))
		return of, nil
	}
	of.Treatments = slices.Insert(of.Treatments, 0, scoped.Treatment(l.scavenger.AttachUntil))
	return of, nil
}
