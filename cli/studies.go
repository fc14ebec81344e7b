package cli

import (
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

// pageOf is what the commands need of a study whose result is a sheet: a [kit.Family], or
// [imported.Study].
type pageOf interface {
	Sheet(run record.Run, attached kit.Attachments, judgements []claim.Judgement) report.Sheet
	Interim(record.Run) report.Sheet
	NextOf(record.Run) string
	Judge(record.Run) []claim.Judgement
}

// studied is a study as the commands have it.
type studied struct {
	pageOf
	commands []subStudied // whose runs can be resumed
	// files, where there are any, are written beside the page.
	files func(run record.Run, attached kit.Attachments) ([]resultFile, error)
}

// resultFile is a file that belongs to a run's result.
type resultFile struct {
	suffix string // after the run's id: "-docker.pprof"
	opens  string // the command that opens it, to which its path is added
	write  func(io.Writer) error
}

// studies are those whose result is a sheet, by the name that a run has of its study. Weigh's
// is composed in package report.
func studies() map[string]studied {
	return map[string]studied{
		startup.Name:   {pageOf: startup.Study, commands: []subStudied{startupCommand}, files: startupProfiles},
		pages.Name:     {pageOf: pages.Study, commands: []subStudied{pagesCommand, faultsCommand}},
		latency.Name:   {pageOf: latency.Studies, commands: latencyStudies},
		platforms.Name: {pageOf: platforms.Study, commands: []subStudied{platformsCommand}},
		density.Name:   {pageOf: density.Study, commands: []subStudied{densityCommand}},
		gpu.Name:       {pageOf: gpu.Study, commands: []subStudied{gpuCommand}},
		imported.Name:  {pageOf: imported.Study{}},
		ioStudy.Name:   {pageOf: ioStudy.Studies, commands: ioStudies},
	}
}

// judges are the studies that judge claims, by name. A claim whose study has
// none is reported as one that this tare cannot judge yet.
var judges = judgesOf(studies())

func judgesOf(all map[string]studied) map[string]claim.Judge {
	judges := map[string]claim.Judge{}
	for name, s := range all {
		judges[name] = s.Judge
	}
	return judges
}

// startupProfiles are a run's merged profiles, one a platform and kind.
func startupProfiles(run record.Run, attached kit.Attachments) ([]resultFile, error) {
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
