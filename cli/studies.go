package cli

import (
	"context"
	"io"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/study/density"
	"tare/study/gpu"
	"tare/study/imported"
	ioStudy "tare/study/io"
	"tare/study/kit"
	"tare/study/latency"
	"tare/study/pages"
	"tare/study/platforms"
	"tare/study/startup"
)

// attachments gives an attachment of one of a run's trials.
type attachments = func(trialID int64, name string) ([]byte, error)

// studied is what the commands need of a study whose result is a sheet. What
// weigh finds has a screen and a page of its own.
type studied struct {
	sheet   func(run record.Run, attached attachments, judgements []claim.Judgement) report.Sheet
	interim func(record.Run) report.Sheet
	next    func(record.Run) string
	// files, where there are any, are written beside the page.
	files  func(run record.Run, attached attachments) ([]resultFile, error)
	resume func(a *app, ctx context.Context, dir string, run record.Run, out, json string) error
}

// resultFile is a file that belongs to a run's result.
type resultFile struct {
	suffix string // after the run's id: "-docker.pprof"
	opens  string // the command that opens it, to which its path is added
	write  func(io.Writer) error
}

// studies by the name that a run has of its study.
func studies() map[string]studied {
	return map[string]studied{
		startup.Name: {
			sheet: func(run record.Run, at attachments, j []claim.Judgement) report.Sheet {
				return startup.Sheet(run, at, j)
			},
			interim: startup.Interim, next: startup.Next,
			files: startupProfiles, resume: resumeFamily(startup.Name, startupStudies),
		},
		pages.Name: {
			sheet:   func(run record.Run, at attachments, j []claim.Judgement) report.Sheet { return pages.Sheet(run, at, j) },
			interim: pages.Interim, next: pages.Next,
			resume: resumeFamily(pages.Name, pageStudies),
		},
		latency.Name: {
			sheet:   ofFamily(latency.Studies),
			interim: latency.Studies.Interim, next: latency.Next,
			resume: resumeFamily(latency.Name, latencyStudies),
		},
		platforms.Name: {
			sheet: func(run record.Run, at attachments, j []claim.Judgement) report.Sheet {
				return platforms.Sheet(run, at, j)
			},
			interim: platforms.Interim, next: platforms.Next,
			resume: resumeFamily(platforms.Name, platformStudies),
		},
		density.Name: {
			sheet: func(run record.Run, at attachments, j []claim.Judgement) report.Sheet {
				return density.Sheet(run, at, j)
			},
			interim: density.Interim, next: density.Next,
			resume: resumeFamily(density.Name, densityStudies),
		},
		gpu.Name: {
			sheet: func(run record.Run, at attachments, j []claim.Judgement) report.Sheet {
				return gpu.Sheet(run, at, j)
			},
			interim: gpu.Interim, next: gpu.Next,
			resume: resumeFamily(gpu.Name, gpuStudies),
		},
		imported.Name: {
			sheet:   func(run record.Run, _ attachments, j []claim.Judgement) report.Sheet { return imported.Sheet(run, j) },
			interim: func(run record.Run) report.Sheet { return imported.Sheet(run, nil) }, next: imported.Next,
			resume: resumeImported,
		},
		ioStudy.Name: {
			sheet:   ofFamily(ioStudy.Studies),
			interim: ioStudy.Studies.Interim, next: ioStudy.Studies.NextOf,
			resume: resumeFamily(ioStudy.Name, ioStudies),
		},
	}
}

// ofFamily composes the page of a run of a family's.
func ofFamily(f kit.Family) func(record.Run, attachments, []claim.Judgement) report.Sheet {
	return func(run record.Run, _ attachments, j []claim.Judgement) report.Sheet { return f.Sheet(run, j) }
}

// resumeFamily resumes a run of a family of studies.
func resumeFamily(family string, studies func() []subStudied) func(a *app, ctx context.Context, dir string, run record.Run, out, json string) error {
	return func(a *app, ctx context.Context, dir string, run record.Run, out, json string) error {
		return a.resumeSub(ctx, family, studies(), dir, run, out, json)
	}
}

// startupProfiles are a run's merged profiles, one a platform and kind.
func startupProfiles(run record.Run, attached attachments) ([]resultFile, error) {
	profiles, err := startup.Profiles(run, attached)
	if err != nil {
		return nil, err
	}
	var files []resultFile
	for _, p := range profiles {
		files = append(files, resultFile{suffix: "-" + p.Name + ".pprof", opens: "go tool pprof", write: p.Write})
	}
	return files, nil
}
