package posting

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// Workplaces finds where the work is done in a board's word for it or in a place
// that names it ("Remote - EU"), and returns the rest, which is the place. An
// empty rest means that the place was nothing but a way to work.
func Workplaces(s string) (found []Workplace, rest string) {
	rest = Text(s)
	lower := strings.ToLower(rest)
	if !slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(lower, stem) }) {
		return nil, rest // most places are just places
	}
	for _, w := range workplaces {
		if !w.words.MatchString(rest) {
			continue
		}
		if !slices.Contains(found, w.is) {
			found = append(found, w.is)
		}
		rest = w.words.ReplaceAllString(rest, "$1$2")
	}
	if len(found) == 0 {
		return nil, rest
	}
	rest = empty.ReplaceAllString(rest, "")
	return found, strings.Trim(strings.Join(strings.Fields(rest), " "), " -–—,;:/|·•&()[]")
}

var (
	workplaces = []struct {
		is    Workplace
		words *regexp.Regexp
	}{
		{Hybrid, wordsIn(`hybrid(?:e|o|a)?|híbrid[oa]|ibrid[oa]|hybrydow[oay]|partially remote|partly remote`)},
		{Remote, wordsIn(`(?:fully |100 ?% ?)?remote(?:ly)?(?: (?:only|first|ok|friendly))?|(?:fully )?distributed|home[- ]?office|work from home|wfh|telecommut(?:e|ing)|télétravail|teletrabajo|remot[oa]|zdaln[aeiy]e?|distans|リモート|远程|원격|anywhere`)},
		{OnSite, wordsIn(`on[-_ ]?site|in[-_ ]?office|in[-_ ]?person|vor ort|présentiel|presencial|stacjonarn[aey]|op kantoor|på plats`)},
	}
	// Each way to work has one of these in it.
	stems = []string{"remot", "hybrid", "hybryd", "híbrid", "ibrid", "partly", "distribut", "home", "wfh", "telecommut",
		"télétravail", "teletrabajo", "zdaln", "distans", "リモート", "远程", "원격", "anywhere", "site", "office", "person", "vor ort",
		"présentiel", "presencial", "stacjonarn", "op kantoor", "på plats"}
	empty = regexp.MustCompile(`\(\s*\)|\[\s*\]`)
)

// wordsIn finds whole words, and keeps what stands around them as $1 and $2.
func wordsIn(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[^\pL\d])(?:` + words + `)($|[^\pL\d])`)
}

// TypeOf reads a board's word for the kind of employment. Empty for no word.
func TypeOf(word string) Type {
	if word = strings.TrimSpace(word); word == "" || len(word) > 200 {
		return ""
	}
	if i := typeWords.first(word); i >= 0 {
		return []Type{Internship, PartTime, Temporary, Contract, FullTime}[i]
	}
	return Other
}

// In this order: an intern's contract may be full-time as well.
var typeWords = newLexicon(
	`intern, interns, internship, internships, trainee, traineeship, apprentice, apprenticeship, praktikum, praktikant, praktikantin,
		stage, stagiaire, prácticas, becario, becaria, estágio, tirocinio, alternance, ausbildung, staż`,
	`part time, parttime, part, teilzeit, temps partiel, tiempo parcial, tempo parcial, meio período, deltid, deeltijd, working student,
		werkstudent, werkstudentin, minijob, mini job`,
	`temp, temporary, seasonal, aushilfe, intérim, temporal, temporário, temporária, vikariat, casual, per diem`,
	`contract, contractor, contracting, freelance, freelancer, freiberuflich, b2b, autónomo, prestador, consultant`,
	`full time, fulltime, full, vollzeit, temps plein, tiempo completo, jornada completa, tempo inteiro, tempo integral, tempo pieno,
		voltijd, heltid, pełny etat, cdi`,
)

// LevelOf reads a board's word for the experience that a posting asks for.
// Empty for no word, and for one that says none of the levels.
func LevelOf(word string) Seniority {
	if len(word) > 200 {
		return ""
	}
	i := levelWords.first(word)
	if i < 0 {
		return ""
	}
	return []Seniority{Executive, Lead, Mid, Senior, Mid, Junior, Intern}[i]
}

// The highest level that a word names, but for "mid-senior", which is one word
// for a step below "senior".
var levelWords = newLexicon(
	`executive, director, vp, vice president, c level, chief, head of, cto, ceo, cfo`,
	`lead, principal, staff, manager, teamlead, head`,
	`mid senior`,
	`senior, sr, experienced, advanced, expert`,
	`mid, middle, midlevel, intermediate, associate, medior, professional`,
	`junior, jr, entry, graduate, beginner`,
	`intern, internship, trainee, student, apprentice`,
)

// LanguageTag is the BCP 47 tag that a board's code for a language stands for,
// or "" if it stands for none.
func LanguageTag(code string) string {
	code = strings.TrimSpace(code)
	if code == "" || len(code) > 35 {
		return ""
	}
	tag, err := language.Parse(code)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}
