// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/internal/version"
	"weir/measure/archive"
	"weir/record"
)

// archiveOptions are the flags of an archive, of weir measure serve and weir measure archive.
type archiveOptions struct {
	address            string
	organization, node string
	age                time.Duration
	noParquet          bool
}

func (o *archiveOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.address, "archive", "", "archive of the records: a folder, s3://BUCKET/PREFIX?endpoint=URL, or gs://BUCKET/PREFIX")
	flags.StringVar(&o.organization, "organization", "local", "organization in the names of objects: a-z and 0-9")
	flags.StringVar(&o.node, "node", "", "MACHINE-SITE in the names of objects, as in mlab1-lga01; the name of this host if empty")
	flags.DurationVar(&o.age, "bundle-age", time.Hour, "time after which a bundle below 20 MiB is archived")
	flags.BoolVar(&o.noParquet, "no-parquet", false, "archive bundles alone")
}

var otherThanNode = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// nodeName is the name of this host, as far as names of objects may contain it.
func nodeName() string {
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	host = strings.Trim(otherThanNode.ReplaceAllString(host, "-"), "-")
	if host == "" {
		return "node"
	}
	return host[:min(len(host), 63)]
}

// open returns the archive of a spool.
func (o *archiveOptions) open(spool string) (*archive.Archive, archive.Destination, error) {
	if o.age < time.Second || o.age > 365*24*time.Hour {
		return nil, nil, fault.New(fault.Usage, "write --bundle-age 1h", "--bundle-age %s is outside 1s to 8760h", o.age)
	}
	to, err := archive.Open(o.address)
	if err != nil {
		return nil, nil, fmt.Errorf("--archive: %w", err)
	}
	spool, err = filepath.Abs(spool)
	if err != nil {
		return nil, nil, fmt.Errorf("--spool: %w", err)
	}
	node := o.node
	if node == "" {
		node = nodeName()
	}
	build := version.Read()
	a, err := archive.New(archive.Options{Spool: spool, Destination: to, Organization: o.organization, Node: node, Version: build.Version, Commit: build.Commit,
		MaxAge: o.age, NoParquet: o.noParquet})
	return a, to, err
}

// follow archives complete bundles until the context ends, and logs the results.
func (o *archiveOptions) follow(ctx context.Context, spool string, log *slog.Logger) error {
	a, _, err := o.open(spool)
	if err != nil {
		return err
	}
	go a.Run(ctx, func(r archive.Report, err error) {
		for _, aside := range r.Aside {
			log.Warn("invalid record set aside", "file", aside.File, "reason", aside.Reason)
		}
		if r.Bundles > 0 {
			log.Info("records archived", "records", r.Records, "bundles", r.Bundles, "bytes", r.Bytes)
		}
		if err != nil {
			log.Error("records not archived; they stay in the spool", "error", err, "try", fault.Advice(err))
		}
	})
	return nil
}

// archived is the document of weir measure archive --format json.
type archived struct {
	Format  string  `json:"format"`
	Spool   string  `json:"spool"`
	Archive string  `json:"archive"`
	Bundles int     `json:"bundles"`
	Records int     `json:"records"`
	Bytes   int64   `json:"bytes"`   // of the bundles, compressed
	Waiting int     `json:"waiting"` // records in bundles that are not complete
	Aside   []aside `json:"aside"`
}

// aside is an invalid file of the spool.
type aside struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

func newArchiveCommand(a *cli.App) *cobra.Command {
	var o archiveOptions
	var spool string
	var now bool
	command := &cobra.Command{
		Use:   "archive",
		Short: "Move the records of a site into an archive",
		Long: `Move the records of a spool into an archive, beside a running site or without one:
bundles in Measurement Lab's layout (autoload/v2), and Parquet files with one row per
test. A record is deleted from the spool after the archive has it. After an
interruption the next run continues with the same objects: each record arrives once.
Files that are no valid record are moved to .aside in the spool, with the reason.

Without --now, bundles below 20 MiB wait until --bundle-age. Keys of S3 come from
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or the AWS credentials file.`,
		Example: `  weir measure archive --spool ./spool --archive ./archive --now
  weir measure archive --archive s3://mlab/site1 --organization example --node mlab1-lga01
  weir measure archive --archive 's3://mlab?endpoint=https://s3.example.net' --now --format json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command.Context(), a, spool, now)
		},
	}
	command.Flags().StringVar(&spool, "spool", "/var/spool/weir", "folder of the records")
	command.Flags().BoolVar(&now, "now", false, "archive all records, however few and young")
	o.flags(command.Flags())
	return command
}

// run archives once.
func (o *archiveOptions) run(ctx context.Context, a *cli.App, spool string, now bool) error {
	if o.address == "" {
		return fault.New(fault.Usage, "add --archive DIR or --archive s3://BUCKET/PREFIX", "--archive is missing")
	}
	work, to, err := o.open(spool)
	if err != nil {
		return err
	}
	if err := to.Check(ctx); err != nil {
		return cli.Stopped(ctx, err)
	}
	r, err := work.Pass(ctx, now)
	for _, invalid := range r.Aside {
		a.Say("Warning: %s is no valid record: %s", invalid.File, invalid.Reason)
	}
	return errors.Join(cli.Stopped(ctx, err), o.print(a, spool, r))
}

// print reports a pass, one that failed too.
func (o *archiveOptions) print(a *cli.App, spool string, r archive.Report) error {
	if a.Format != "json" {
		return a.Table(record.Table{Title: "Archive", Columns: []string{"result", "value"}, Rows: [][]string{
			{"records archived", fmt.Sprint(r.Records)}, {"bundles", fmt.Sprint(r.Bundles)}, {"size", units.ByteSize(r.Bytes).String()},
			{"records waiting", fmt.Sprint(r.Waiting)}, {"invalid files set aside", fmt.Sprint(len(r.Aside))},
		}})
	}
	document := archived{Format: "weir-measure-archive/1", Spool: spool, Archive: o.address, Bundles: r.Bundles, Records: r.Records, Bytes: r.Bytes, Waiting: r.Waiting, Aside: []aside{}}
	for _, invalid := range r.Aside {
		document.Aside = append(document.Aside, aside{invalid.File, invalid.Reason})
	}
	return a.JSON(document)
}
