// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/version"
	"weir/record"
	"weir/record/bundle"
	"weir/record/overlay"
)

func newOverlayCommand(a *cli.App) *cobra.Command {
	var out string
	command := &cobra.Command{
		Use:   "overlay [NAME=]BUNDLE [NAME=]BUNDLE...",
		Short: "Draw the figures of several evidence bundles in one",
		Long: `Draw the figures of several evidence bundles in one plot each.

If two or more bundles contain the same figure, the command draws one plot with the
curves of all of them. Each curve is labelled with NAME, or with the part of the folder
name that differs. The result is a bundle with report.html, the plots as SVG and PNG,
and every sample with the name of its bundle.`,
		Example: "  weir lab overlay before=weir-out/A after=weir-out/B fq=weir-out/C --out weir-out/queues",
		Args:    cobra.MinimumNArgs(2),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := sweep(a); err != nil {
				return err
			}
			return overlayBundles(c.Context(), a, args, out)
		},
	}
	command.Flags().StringVar(&out, "out", "", "folder for the bundle of all (default ./weir-out/overlay-TIME)")
	return command
}

// overlayResult is the document of weir lab overlay --format json.
type overlayResult struct {
	Format  string          `json:"format"`
	Bundle  string          `json:"bundle"`
	Of      []overlaySource `json:"of"`
	Figures []overlayFigure `json:"figures"`
	Notes   []string        `json:"notes,omitempty"`
}

type overlaySource struct {
	Name   string `json:"name"`
	Folder string `json:"folder"`
}

type overlayFigure struct {
	Plot   string   `json:"plot"`
	Title  string   `json:"title"`
	Curves []string `json:"curves"`
}

// overlayBundles writes the overlay of bundles and lists its figures.
func overlayBundles(ctx context.Context, a *cli.App, args []string, dir string) error {
	sources, err := overlaySources(args)
	if err != nil {
		return err
	}
	all, err := overlay.Of(sources)
	if err != nil {
		return err
	}
	if dir == "" {
		dir = filepath.Join("weir-out", "overlay-"+time.Now().Format("20060102-150405"))
	}
	all.Manifest.Version, all.Manifest.Command = version.Number, a.Args
	if err := bundle.WriteContext(ctx, dir, all); err != nil {
		return err
	}
	result := overlayResult{Format: "weir-lab-overlay/1", Bundle: dir, Notes: all.Manifest.Notes}
	for _, s := range sources {
		result.Of = append(result.Of, overlaySource{s.Name, s.Folder})
	}
	t := record.Table{Title: "Figures", Columns: []string{"figure", "title", "curves"}}
	for _, f := range all.Figures {
		one := overlayFigure{Plot: filepath.Join(dir, bundle.PlotsFolder, f.Name+".svg"), Title: f.Title}
		for _, c := range f.Curves {
			one.Curves = append(one.Curves, c.Name)
		}
		result.Figures = append(result.Figures, one)
		t.Rows = append(t.Rows, []string{one.Plot, one.Title, strings.Join(one.Curves, "; ")})
	}
	if a.Format == "json" {
		return a.JSON(result)
	}
	all.Tables = append(all.Tables, t)
	return a.PrintBundle(*all, dir)
}

// overlaySources reads the bundles that arguments name: "NAME=FOLDER", or a folder alone.
func overlaySources(args []string) ([]overlay.Source, error) {
	var sources []overlay.Source
	for _, arg := range args {
		s := overlay.Source{Folder: arg}
		if name, folder, named := strings.Cut(arg, "="); named && !isFolder(arg) {
			s.Name, s.Folder = name, folder
		}
		b, err := bundle.Read(s.Folder)
		if err != nil {
			return nil, err
		}
		s.Bundle = b
		sources = append(sources, s)
	}
	overlay.Name(sources)
	for i, s := range sources {
		for _, other := range sources[:i] {
			if s.Name == other.Name {
				return nil, fault.New(fault.Usage, "name them: NAME="+other.Folder+" OTHER="+s.Folder, "two bundles have the name %q", s.Name)
			}
		}
	}
	return sources, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
