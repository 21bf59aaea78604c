// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/core/engine"
	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/internal/texttable"
	"weir/internal/version"
)

// App holds the output streams and global flags of all commands.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Format         string // "text" or "json"
	Quiet          bool
	Printed        bool     // a JSON document is on standard output
	Args           []string // the command line, for manifests
	mistake        error    // of a request for help of an unknown command
	// Engine returns the engine of this host; tests replace it.
	Engine func() (*engine.Engine, error)
	// Inline runs reading commands on the calling thread; tests set it for a thread in another
	// network namespace.
	Inline bool
}

// Run executes one command line on root and returns its exit status.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) fault.Status {
	a.Args = append([]string{"weir"}, args...)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.mistake
	}
	if command := new(ExitStatus); errors.As(err, &command) {
		return fault.Status(command.Status)
	}
	a.Report(err)
	return fault.Of(err)
}

// NewRoot returns the command weir with these commands.
func NewRoot(a *App, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Limit, classify and measure the traffic of Linux hosts and routers",
		Long: `Weir limits, classifies and measures the traffic of Linux hosts and routers.

A policy file sets the treatment of traffic: limits, classes of service, congestion
control, in-band telemetry, offload. "weir plan" shows the changes that a policy would
make, and "weir apply" or "weir daemon" makes them. "weir status" and "weir top" show the
effect of the policy, "weir prove" tests it, and "weir release" ends the policy. "weir
run" limits one command without a policy. "weir lab" measures traffic on emulated links
between network namespaces, and "weir tester" tests a data path frame by frame.`,
		Example: `  weir doctor                                   the mechanism of each capability on this machine
  sudo weir run --limit 100Mbit -- rsync -a /data backup:/data
  sudo weir apply policy.yaml && sudo weir top
  sudo weir lab run loss-quick                  the effect of 1 % packet loss on TCP`,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.Format != "text" && a.Format != "json" {
				return fault.New(fault.Usage, "use --format text or --format json", "--format %q is not known", a.Format)
			}
			return nil
		},
	}
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.PersistentFlags().StringVar(&a.Format, "format", "text", "format of standard output: text or json")
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "print no progress")
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fault.New(fault.Usage, "run '"+command.CommandPath()+" --help'", "%w%s", err, nearFlag(command, err))
	})
	root.AddCommand(commands...)
	root.InitDefaultCompletionCmd()
	strict(root)
	strictHelp(a, root)
	interruptible(a, root)
	return root
}

// strict converts cobra's argument errors to faults, and an unknown command to an error instead of
// help.
func strict(command *cobra.Command) {
	if own, others, found := strings.Cut(command.Use, " -- "); found { // cobra would put flags behind the other command
		command.Use, command.DisableFlagsInUseLine = own+" [flags] -- "+others, true
	}
	if check := command.Args; check != nil {
		command.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil || fault.Advice(err) != "" { // which a check of the command's own has given
				return err
			}
			return arity(c, args, check)
		}
	}
	if command.HasSubCommands() && command.RunE == nil {
		command.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknown(c, args[0])
		}
		command.Args = cobra.ArbitraryArgs
	}
	for _, sub := range command.Commands() {
		strict(sub)
	}
}

// unknown is the mistake of a word that is no command of c.
func unknown(c *cobra.Command, word string) error {
	try := "run '" + c.CommandPath() + " --help' for the list of commands"
	if near := nearest.Of(word, names(c)); near != "" {
		try = "did you mean " + near + "?"
	}
	return fault.New(fault.Usage, try, "%q is not a command of %s", word, c.CommandPath())
}

// strictHelp makes asking for the help of a word that is no command the same mistake, with --help
// and with the command help, where cobra would print that of the command above.
func strictHelp(a *App, root *cobra.Command) {
	print := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			a.mistake = unknown(c, words[0]) // a help function returns nothing
			return
		}
		print(c, args)
	})
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.RunE = func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && c.HasSubCommands() {
				err = unknown(c, rest[0])
			}
			if err != nil {
				return err
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		}
	}
}

// names lists the commands of c that --help shows.
func names(c *cobra.Command) (all []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return all
}

// nearFlag suggests the flag nearest to an unknown one, or returns "".
func nearFlag(command *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var all []string
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, "--"+f.Name)
		}
	})
	return nearest.Hint("--"+unknown.GetSpecifiedName(), all)
}

// arity returns the error for a wrong number of arguments.
func arity(c *cobra.Command, args []string, check cobra.PositionalArgs) error {
	try := "write: " + c.UseLine() + "; '" + c.CommandPath() + " --help' has examples"
	for n, beyond := range slices.Backward(args) {
		if check(c, args[:n]) == nil {
			return fault.New(fault.Usage, try, "%q is one argument too many", beyond)
		}
	}
	return fault.New(fault.Usage, try, "an argument is missing")
}

// Report prints err and its advice.
func (a *App) Report(err error) {
	if err == nil || errors.Is(err, ErrVerdict) {
		return
	}
	if a.Format == "json" && !a.Printed {
		_ = a.JSON(ErrorDocument{"weir-error/1", err.Error(), fault.Advice(err), int(fault.Of(err))}) // and for people as well
	}
	fmt.Fprintf(a.Stderr, "Error: %s\n", texttable.PrintableLines(err.Error()))
	if try := fault.Advice(err); try != "" {
		program, _ := os.Executable()
		fmt.Fprintf(a.Stderr, "Try:   %s\n", strings.ReplaceAll(installed(try, program), "\n", "\n       "))
	}
}

var aDocument = regexp.MustCompile(`\bdocs/[a-z]+`)

// installed replaces paths of documents by their installed ones, if they exist.
func installed(try, program string) string {
	docs := filepath.Join(filepath.Dir(program), "..", "share", "doc", "weir")
	return aDocument.ReplaceAllStringFunc(try, func(name string) string {
		if _, err := os.Stat(filepath.Join(docs, name)); err != nil {
			return name
		}
		return filepath.Join(docs, name)
	})
}

// ErrorDocument is the output of a failed command with --format json.
type ErrorDocument struct {
	Format string `json:"format"`
	Error  string `json:"error"`
	Try    string `json:"try,omitempty"`
	Status int    `json:"status"`
}

// ErrVerdict ends a command with status 1 after its output has named the failed verdict.
var ErrVerdict = errors.New("a verdict does not hold")

// ExitStatus ends Weir with the status of the command that it ran.
type ExitStatus struct{ Status int }

func (e *ExitStatus) Error() string { return fmt.Sprintf("the command ended with status %d", e.Status) }
