package fakeboards

// wording is how jobs are advertised in one language.
type wording struct {
	language string
	titles   []string
	intro    string   // HTML
	points   []string // HTML
}

var wordings = []wording{
	{"en", []string{"Senior Go Engineer", "Site Reliability Engineer", "R&D Lead, Storage & Search", "C++/CUDA Engineer <GPU>", "Head of \"Things\""},
		`We build software that waits well &amp; wakes quickly. <a href="https://example.com/team">About the team</a>`,
		[]string{"Go, SQL &amp; Linux", "You have run systems at 99.9&nbsp;%", "On-call, one week in eight", "<strong>No</strong> travel"}},
	{"de", []string{"Entwickler (m/w/d) Straßenverkehr", "Größeningenieur für Prüfstände", "Werkstudent Qualitätssicherung"},
		`Für unser Büro suchen wir Verstärkung &ndash; gerne auch in Teilzeit.`,
		[]string{"Erfahrung mit verteilten Systemen", "Fließendes Deutsch"}},
	{"fr", []string{"Ingénieur·e données", "Développeuse / Développeur confirmé", "Chef de projet « mobilité »"},
		`Rejoignez-nous&nbsp;: une petite équipe, de grandes données.`,
		[]string{"Goût du détail", "Anglais courant"}},
	{"pt", []string{"Engenheira de Dados", "Programador Sênior – Pagamentos"},
		`Procuramos quem goste de sistemas distribuídos em S&atilde;o Paulo.`,
		[]string{"Experiência com filas", "Boa comunicação"}},
	{"es", []string{"Diseñador de producto", "Técnico de señal, turno de mañana"},
		`Buscamos a alguien con ganas de aprender.`,
		[]string{"Español nativo", "Disponibilidad inmediata"}},
	{"pl", []string{"Inżynier oprogramowania", "Główny księgowy (Łódź)"},
		`Dołącz do zespołu, który rozwija systemy kolejkowe.`,
		[]string{"Znajomość języka polskiego", "Praca zdalna"}},
	{"tr", []string{"Yazılım Geliştirici (İstanbul)", "IŞIK MÜHENDİSİ"},
		`Ekibimize yeni bir arkadaş arıyoruz.`,
		[]string{"İyi derecede İngilizce"}},
	{"el", []string{"Μηχανικός Λογισμικού", "Αναλυτής Δεδομένων"},
		`Αναζητούμε έμπειρο συνεργάτη.`,
		[]string{"Άριστη γνώση Go"}},
	{"uk", []string{"Інженер з надійності", "Розробниця Go"},
		`Ми шукаємо людину, яка любить розподілені системи.`,
		[]string{"Досвід від трьох років"}},
	{"he", []string{"מהנדס תוכנה בכיר", "מנהלת מוצר"},
		`אנחנו מחפשים אנשים סקרנים.`,
		[]string{"ניסיון של שלוש שנים"}},
	{"ar", []string{"مهندس برمجيات أول", "محللة بيانات"},
		`نبحث عن زميل جديد لفريقنا.`,
		[]string{"خبرة ثلاث سنوات"}},
	{"hi", []string{"वरिष्ठ सॉफ़्टवेयर इंजीनियर"},
		`हमारी टीम बढ़ रही है।`,
		[]string{"तीन वर्ष का अनुभव"}},
	{"ja", []string{"シニアソフトウェアエンジニア", "データ基盤エンジニア【リモート可】"},
		`分散システムの開発をお任せします。`,
		[]string{"Goでの開発経験", "日本語ビジネスレベル"}},
	{"ko", []string{"백엔드 개발자 (경력)", "데이터 엔지니어"},
		`함께 성장할 동료를 찾습니다.`,
		[]string{"3년 이상 경력"}},
	{"zh", []string{"高级后端工程师", "产品经理（海外业务）"},
		`加入我们，一起构建可靠的系统。`,
		[]string{"三年以上经验"}},
	{"th", []string{"วิศวกรซอฟต์แวร์อาวุโส"},
		`เรากำลังมองหาเพื่อนร่วมทีม`,
		[]string{"ประสบการณ์สามปี"}},
	{"vi", []string{"Kỹ sư phần mềm", "Chuyên viên phân tích dữ liệu"},
		`Chúng tôi đang tìm đồng đội mới.`,
		[]string{"Ba năm kinh nghiệm"}},
	{"sv", []string{"Systemutvecklare åt kommunen 🚆"},
		`Vi söker dig som vill göra skillnad.`,
		[]string{"Svenska i tal och skrift"}},
}

// The companies that every board has, in this order.
var companyNames = []string{
	"Acme", "Lindenhof Labs", "Ostwind Energie", "Pão & Filhos", "東雲システム", "Nordlys", "Quince", "Заря", "Blue Heron", "Café Zürich",
}

var teams = []string{"Core", "R&D", "Platform", "Größen & Maße", "Finance", "客户成功", "Data"}

var places = []Place{
	{"Lisbon", "Lisboa", "Portugal", "PT"},
	{"Porto", "Porto", "Portugal", "PT"},
	{"Berlin", "Berlin", "Germany", "DE"},
	{"München", "Bayern", "Germany", "DE"},
	{"Zürich", "Zürich", "Switzerland", "CH"},
	{"São Paulo", "São Paulo", "Brazil", "BR"},
	{"Kraków", "Małopolskie", "Poland", "PL"},
	{"Łódź", "Łódzkie", "Poland", "PL"},
	{"İstanbul", "İstanbul", "Türkiye", "TR"},
	{"Athens", "Attica", "Greece", "GR"},
	{"東京", "東京都", "Japan", "JP"},
	{"Göteborg", "Västra Götaland", "Sweden", "SE"},
	{"Montréal", "Québec", "Canada", "CA"},
	{"Austin", "Texas", "United States", "US"},
	{"Ho Chi Minh City", "", "Vietnam", "VN"},
	{"Saint-Étienne", "Auvergne-Rhône-Alpes", "France", "FR"},
}

var payForms = []Pay{
	{60_000, 80_000, "EUR", "year"},
	{90_000, 120_000, "USD", "year"},
	{45_500, 0, "GBP", "year"},
	{25, 40, "USD", "hour"},
	{3_800, 4_600, "EUR", "month"},
	{8_000_000, 12_000_000, "JPY", "year"},
	{70_000, 70_000, "CHF", "year"},
}
