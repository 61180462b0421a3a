//! Words that questions are phrased with, by language, in addition to the index's stop words. They
//! express that something is asked, but not what, or have no subject, such as `anywhere`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::search::analyzer::{Language, accents, fold};

const ENGLISH: &str = "many much use used uses using tell explain describe give show please know mean means \
    could would find list name get got say says said us reach happen happens kind type long often documents \
    document text define definition summarise summarize summary overview meaning take takes took work works \
    working per via anywhere somewhere everywhere anyone anybody someone somebody anything something everything \
    everyone else ever actually already still yet just really properly correctly currently instead without \
    within upon handle sorry thank thanks hello hi oops meant clarify clarification correction mention mentioned \
    mentioning wonder wondering curious details detailed provide elaborate specific specifically exactly basically \
    maybe perhaps guess think believe info information regarding concerning across beyond among amongst toward towards \
    throughout along alongside around behind beside besides despite except unless till although whether amid onto \
    anytime sometimes always even though want wants wanted wanna gonna need needs supposed way ways thing things \
    stuff lot lots able anymore every i'm i've i'd i'll you're you've we're we've they're \
    may might must shall whom whose nobody noone none never again getting gets gives giving gave goes going \
    went comes came coming seem seems trying tried tries certain whenever whatever whichever rather quite \
    pretty kinda sorta dont doesnt didnt isnt arent cant couldnt wont wouldnt shouldnt havent hasnt wasnt \
    whats hows wheres whos theres thats lets rid stand stands abbreviation acronym \
    setup howto tutorial";

const FRENCH: &str = "comment quand pourquoi combien quel quelle quels quelles où quoi puis peut peux peuvent \
    dois doit doivent faut utiliser utilise utilisé expliquer explique expliquez décrire décris décrivez donner \
    donne donnez montrer montre montrez plaît signifie signifient signification veut dire entend entendre \
    trouver trouve liste nom appelle obtenir obtient obtiens recevoir faire fait fais existe existent type \
    types sorte sortes genre document documents texte définition définir résumé résumer aperçu longtemps \
    souvent passe informations information consiste fonctionne \
    besoin veux veulent voudrais aimerais souhaite voulez bonjour salut merci svp stp toujours jamais encore \
    déjà vraiment juste seulement plusieurs quelqu'un quelque chose personne rien tout toute toutes tous \
    arrive arriver arrivent marche marchent ça cela fonctionnent moyen possible façon manière plutôt \
    exactement sert servent";

const GERMAN: &str = "wer wen wem wessen wann warum wieso weshalb wofür womit wodurch woher wohin worauf worin \
    welch viele vielen gibt geben geht gehen macht tun darf dürfen möchte möchten soll sollen bitte erkläre \
    erklären erklärt beschreibe beschreiben nenne nennen zeige zeigen sag sage sagt bedeutet bedeuten \
    bedeutung heißt versteht verstehen meint nutze nutzen benutze benutzen verwende verwenden verwendet finde \
    finden findet bekomme bekommen bekommt erhalte erhalten erhält bietet bieten gilt gelten beinhaltet \
    beinhalten umfasst läuft funktioniert passiert liste name art arten thema informationen information \
    definition überblick zusammenfassung zusammenfassen dokument dokumente dokumenten text lange oft pro je \
    irgendwo irgendwie irgendwas überhaupt eigentlich jemand jemandem jemanden schon bereits richtig genau \
    hab habs hast kriege kriegt kriegst kriegen gibts gehts klappt klappen klappte stell stelle stellt mal \
    eben ne nen nem ner nich nix grad gerade brauche brauchst braucht brauchen müsste könnte könnt würde mehr \
    einfach gar halt denn doch wohl jetzt gern gerne danke hallo immer nie manchmal wieder kommt kommen \
    mache machen machst mach tue tust \
    höchstens mindestens gemeint zeigst nutzt benutzt findest bekommst erhältst gehst irgendwer irgendeine irgendein niemand keiner alles ganz nun eh ab möglich möglichkeit weise ausversehen \
    klar bloß steht stehen";

const SPANISH: &str = "cómo cuándo cuánto cuánta cuántos cuántas qué cuál cuáles dónde quién quiénes puedo \
    puede pueden debo debe hay usar usa utilizar utiliza explicar explica explique describir describe dar da \
    mostrar muestra favor significa significan significado quiere decir encontrar encuentro lista nombre llama \
    obtener obtengo recibir hacer hace hago existe existen tipo tipos clase clases documento documentos texto \
    definición definir resumen resumir menudo pasa información consiste funciona \
    necesito necesita necesitan quiero quisiera gustaría gracias hola siempre nunca todavía aún ya solo sólo \
    solamente alguien algo nadie nada todo toda todos todas sirve sirven funcionan manera forma posible \
    realmente exactamente sucede";

const ITALIAN: &str = "come quando perché quanto quanta quanti quante quale quali dove chi cosa posso può \
    possono devo deve bisogna usare usa utilizzare utilizza spiegare spiega descrivere descrivi dare dai \
    mostrare mostra favore significa significano significato vuol dire trovare trovo elenco nome chiama \
    ottenere ottengo ricevere fare fa faccio esiste esistono tipo tipi genere documento documenti testo \
    definizione riassunto riassumere spesso succede informazioni consiste funziona \
    bisogno vorrei voglio serve servono ciao grazie sempre mai ancora già solo soltanto qualcuno qualcosa \
    nessuno niente tutto tutta tutti tutte funzionano modo maniera possibile davvero esattamente capita";

const PORTUGUESE: &str = "como quando porque quanto quanta quantos quantas qual quais onde quem posso pode podem \
    devo deve há existe existem usar usa utilizar utiliza explicar explica explique descrever dar dê mostrar \
    mostre favor significa significam significado quer dizer encontrar encontro lista nome chama obter obtenho \
    receber fazer faz faço tipo tipos documento documentos texto definição resumo resumir acontece informações \
    consiste funciona \
    preciso precisa quero queria gostaria obrigado obrigada olá sempre nunca ainda já só somente alguém algo \
    ninguém nada tudo toda todos todas serve servem funcionam maneira forma jeito possível realmente \
    exatamente";

const DUTCH: &str = "hoe wanneer waarom hoeveel welke welk waar wie wat kan kun kunnen moet mag gebruik gebruiken \
    gebruikt uitleg uitleggen beschrijf geef geven toon tonen alstublieft betekent betekenen betekenis vind \
    vinden lijst naam heet krijg krijgen krijgt doen doe bestaan bestaat soort soorten type document documenten \
    tekst definitie samenvatting vaak lang gebeurt informatie werkt \
    nodig wil wilt willen graag hallo bedankt dank altijd nooit nog al alleen iemand iets niemand niets alles \
    werken manier mogelijk echt precies eigenlijk gewoon even hoezo gaat gaan";

const RUSSIAN: &str = "как какой какая какое какие какого какую каком каким каких что чем чего чему кто кого где когда зачем \
    почему сколько куда откуда ли можно нужно надо нельзя стоит есть бывает бывают такое такая такой это понять узнать \
    посмотреть глянуть смотреть сделать делать сказать объясни объяснить опиши описать расскажи покажи показать дай \
    назови перечисли значит означает расшифровка определение разница отличается отличаются отличие различие варианты \
    вариант вид виды тип типы способ способы использовать используется используют работает работать происходит помощью \
    лучше обычно вообще именно просто самый список документ документы документах документации текст информация \
    информацию название называется называют находится находятся получить найти хочу могу может могут можете пожалуйста \
    подскажите существует существуют общем вкратце свой свою своих весь всё \
    мне меня нам если бы ещё еще уже всегда никогда никто ничего кто-то что-то кто-нибудь что-нибудь как-то \
    спасибо привет нужен нужна нужны хотел хотела хочется типа короче вроде возможно возможность \
    действительно точно";

const ARABIC: &str = "ما ماذا من متى أين كيف لماذا هل كم أي أية ماهي ماهو هي هو يمكن يمكنني يمكنك يجب ينبغي أستطيع \
    استخدام أستخدم يستخدم اشرح شرح صف وصف أعط اعط أظهر يعني معنى تعني أجد العثور قائمة اسم يسمى الحصول أحصل \
    يحصل أفعل فعل يوجد توجد نوع أنواع مستند المستند المستندات وثيقة الوثائق نص تعريف ملخص غالبا يحدث معلومات المعلومات \
    هناك لدي لدى عند خلال حول بعض القيام الذي التي يتم تتم";

const SWEDISH: &str = "hur när varför vad var vem vilken vilket vilka vart kan får ska skall måste bör använda använder \
    används förklara beskriv beskriva ge visa snälla betyder innebär hitta hittar lista namn heter få gör göra finns \
    typ typer slag dokument dokumentet text definition sammanfattning ofta händer information fungerar skillnad \
    skillnaden många mycket länge \
    behöver vill skulle hej tack alltid aldrig redan bara någon något ingen inget allt alla sätt möjligt \
    verkligen egentligen";

const DANISH: &str = "hvordan hvornår hvorfor hvad hvor hvem hvilken hvilket hvilke kan må skal bør bruge bruger bruges \
    forklar beskriv giv vis venligst betyder finde finder liste navn hedder få får gør gøre findes type typer slags \
    dokument dokumentet tekst definition resumé ofte sker information fungerer forskel forskellen mange meget længe \
    behøver vil ville gerne hej tak altid aldrig allerede kun bare nogen noget ingen intet alt alle måde \
    muligt virkelig egentlig";

const NORWEGIAN: &str = "hvordan når hvorfor hva hvor hvem hvilken hvilket hvilke kan må skal bør bruke bruker brukes \
    forklar beskriv gi vis vennligst betyr finne finner liste navn heter få får gjør gjøre finnes type typer slags \
    dokument dokumentet tekst definisjon sammendrag ofte skjer informasjon fungerer forskjell forskjellen mange mye lenge \
    trenger vil ville gjerne hei takk alltid aldri allerede bare noen noe ingen alt alle måte mulig virkelig \
    egentlig";

const FINNISH: &str = "miten milloin miksi mikä mitä missä mistä mihin kuka ketkä mitkä kuinka voiko voin voinko voi saako \
    pitääkö pitää täytyy käyttää käytän käytetään selitä kuvaile anna näytä tarkoittaa löydän löytyy lista luettelo nimi \
    saan tehdä teen onko olla tyyppi tyypit asiakirja dokumentti teksti määritelmä tiivistelmä usein tapahtuu tieto toimii \
    ero monta paljon kauan";

const GREEK: &str = "πώς πως πότε γιατί τι πού ποιος ποια ποιο ποιοι ποιες πόσο πόσα πόσες μπορώ μπορεί πρέπει \
    χρησιμοποιώ χρησιμοποιήσω εξήγησε περίγραψε δώσε δείξε παρακαλώ σημαίνει βρω βρίσκω βρίσκεται λίστα όνομα λέγεται \
    κάνω κάνει υπάρχει υπάρχουν τύπος τύποι είδος έγγραφο κείμενο ορισμός περίληψη συχνά συμβαίνει πληροφορίες λειτουργεί \
    διαφορά";

const HUNGARIAN: &str = "hogyan hogy mikor miért mi mit mely melyik hol honnan hová ki kik mennyi hány tudok tud lehet kell \
    szabad használni használok használható magyarázd írd adj mutasd kérem jelent jelenti találom található lista név nevezik \
    kapok tenni teszek van vannak típus típusok fajta dokumentum dokumentumok szöveg meghatározás összefoglaló gyakran \
    történik információ működik különbség sok sokáig";

const ROMANIAN: &str = "cum când de ce care unde cine cât câtă câți câte pot poate trebuie folosesc folosi utiliza utilizez \
    explică descrie dă arată rog înseamnă găsesc găsi listă nume numește obțin obține primesc face fac există tip tipuri \
    fel document documente text definiție rezumat des întâmplă informații funcționează diferența diferență mult mulți";

const TURKISH: &str = "nasıl ne zaman neden niçin niye hangi hangisi nerede nereden nereye kim kimler kaç nedir nelerdir \
    midir var yok gerekir gerekli lazım kullanmak kullanılır kullanabilirim açıkla anlat tarif ver göster lütfen demek \
    anlamı bulmak bulabilirim liste adı denir almak alabilirim yapmak yapılır yaparım tür türleri çeşit belge belgeler \
    metin tanım tanımı özet sık olur bilgi çalışır fark farkı çok kadar";

const CATALAN: &str = "com quan per què perquè quant quanta quants quantes quin quina quins quines on qui què puc pot poden podem \
    cal he hem hi ha haver faig fer fa fem serveix serveixen usar usa utilitzar utilitza explica explicar descriu descriure dona \
    mostra mostrar sisplau significa signifiquen vol dir trobar trobo llista nom diu obtenir obtinc existeix existeixen tipus \
    mena document documents text definició resum sovint passa informació funciona diferència";

const CZECH: &str = "jak jaký jaká jaké jací jakého jakou jakým jakých co čeho čemu čím kdo koho kde kam odkud kudy kdy proč nač kolik \
    který která které kterou kterého kterým lze jde jdou dá dají mohu můžu můžeš může můžou můžeme můžete můžete mám máme musím \
    musí potřebuji potřebuju potřebuje chci chceme chtěl chtěla bych existuje existují použít používat používá používají udělat \
    dělat dělá dělám fungovat funguje fungují znamená znamenají význam definice aby abych abys abychom abyste vysvětli vysvětlete popiš popište řekni ukaž \
    prosím najít najdu najde nalézt nachází nacházejí získat získám dostat dostanu seznam jméno název jmenuje druh druhy typ typy \
    způsob způsoby slouží dokument dokumenty dokumentu dokumentech text textu shrnutí přehled často stane děje informace rozdíl \
    rozdíly možné možno možnost vlastně nějak někde něco třeba všechny všechno \
    někdo nikdo nic vždy nikdy ještě už jen jenom opravdu přesně díky děkuji ahoj trochu mi mě všichni";

const HINDI: &str = "क्या कब क्यों कहाँ कहां कैसे कैसा कैसी कौन कौनसा कौनसी किस किसे किसने कितना कितने कितनी सकता सकते सकती सकूँ \
    चाहिए होता होती होते करें करना करूँ करूं करूँगा बताएं बताइए बताओ समझाओ समझाएं वर्णन दिखाओ दिखाएं कृपया मतलब अर्थ परिभाषा \
    सूची नाम प्रकार तरीका तरीके उपयोग इस्तेमाल प्रयोग दस्तावेज़ दस्तावेज पाठ सारांश अक्सर जानकारी अंतर फर्क मिलेगा मिलता मिलती";

const INDONESIAN: &str = "apa apakah bagaimana gimana gmn bgmn kapan kenapa mengapa knp dimana mana siapa berapa yang yg utk untuk dgn dengan \
    dari dr di ke pada bisa bs dapat dpt boleh harus perlu mau ingin cara caranya supaya agar biar gak nggak enggak ga tidak tdk \
    bukan ada adalah itu ini kalo kalau jika saya aku gue kita pake pakai memakai gunakan menggunakan digunakan buat membuat bikin \
    jelaskan sebutkan tunjukkan tolong mohon artinya arti maksud maksudnya definisi temukan menemukan cari daftar nama jenis macam \
    tipe fungsi fungsinya gunanya kegunaan dokumen teks ringkasan sering terjadi informasi perbedaan bedanya beda lewat sih ya dong";

const POLISH: &str = "jak jaki jaka jakie jacy jakiego jaką jakim jakich co czego czemu czym kto kogo gdzie dokąd skąd kiedy dlaczego czemu po \
    ile ilu który która które którą którego którym czy można mogę możesz może możemy mogą da się trzeba należy powinienem muszę \
    musi chcę chciałbym chciałabym potrzebuję istnieje istnieją są jest mam masz używać używa użyć użycie korzystać zrobić robić \
    robi działa działają działać oznacza oznaczają znaczy znaczenie definicja wyjaśnij opisz powiedz pokaż proszę znaleźć znajdę \
    znajduje znajdują uzyskać dostać lista nazwa nazywa rodzaj rodzaje typ typy sposób sposoby służy służą dokument dokumenty \
    dokumentu dokumentach tekst tekstu podsumowanie przegląd często dzieje informacje różnica różnice różni różnią jakiś jakoś \
    gdzieś coś żeby żebym aby wszystkie wszystko właściwie \
    ktoś nikt nic zawsze nigdy jeszcze już tylko naprawdę dokładnie dzięki cześć witam potrzebny potrzebna \
    potrzebne trochę mi mnie wszyscy możliwe możliwość";

const UKRAINIAN: &str = "як який яка яке які якого якої яку яким якій яких що чого чому чим хто кого кому де куди звідки коли навіщо скільки \
    чи можна можу може можете можемо можуть треба потрібно потрібен потрібна потрібні слід варто є бути буде немає маю має мають \
    мені ви ти ми я він вона вони це цей ця ці те той така такий таке такі мій моя моє мої свій своя своє свої їх його її для від \
    до з зі із у в на по при про та і й але або якщо щоб тому також ще вже так ні не використовувати використовується \
    використати робити зробити роблю працює працюють працювати означає значить визначення поясни поясніть опиши опишіть розкажи \
    покажи покажіть скажіть назви перелічи будь ласка знайти знайду дізнатися дізнатись отримати отримаю отримує список назва \
    називається називаються вид види тип типи спосіб способи різниця відрізняється відрізняються документ документи документах \
    текст інформація інформацію існує існують відбувається часто знаходиться знаходяться хочу хотів хотіла взагалі саме";

/// Chinese words as a dictionary cuts them, in both scripts.
const CHINESE: &str = "什么 什麼 怎么 怎麼 怎样 怎樣 怎么样 怎麼樣 如何 为什么 為什麼 为何 為何 为啥 是啥 干什么 干啥 哪里 哪裡 \
    哪儿 哪个 哪個 哪些 哪一 几个 幾個 多少 多久 多长 多大 多高 谁 誰 是谁 是誰 请问 請問 请教 告诉 告訴 是不是 有没有 有沒有 能不能 \
    可不可以 会不会 要不要 是否 可以 可能 能否 能够 能夠 需要 应该 應該 应当 必须 想要 只想 我想 希望 一下 一个 一個 一种 一種 这个 這個 \
    那个 那個 这种 這種 那种 这样 這樣 那样 这些 這些 那些 这里 那里 我们 我們 你们 他们 它们 自己 有人 别人 大家 时候 時候 的时候 意思 \
    原因 理由 区别 區別 差别 不同 不一 一样 一樣 方法 办法 辦法 步骤 东西 東西 有哪 哪种 没有 沒有 还有 還有 以及 或者 还是 還是 但是 \
    因为 因為 所以 如果 的话 要是 之前 之后 里面 裡面 上面 下面 介绍 介紹 解释 解釋 说明 說明 说说 列出 列举 总结 總結 概述 用法 使用 \
    用来 用於 用于 进行 進行 叫做 称为 才能 才够 比较 比較 最好 一般 通常 老是 总是 總是 每次 一共 总共 大概 具体 主要 关于 關於 对于 \
    目前 现在 現在 已经 已經 真的 到底 究竟 好像 还能 不能 不会 不要 文档 文檔 做到 找到 看到 得到 碰到 遇到 \
    用到";

/// Chinese characters that are particles, auxiliaries and pronouns.
const CHINESE_PARTICLES: &str = "的了是在把和跟与與吗嗎呢啊吧呀也都就才只要用得这這那哪几幾让讓给給从從到去来來会會能很太再还還被将將\
    对對于於但或请請想么麼们們啥嘛谁誰不没沒有个個我你他她它您做些里裡上下叫为為以之其向而且并並该該应應每又所已有中后";

/// Japanese words with a Chinese character or Katakana, as a dictionary cuts them. Words in Hiragana alone are
/// grammar more often than not.
const JAPANESE: &str = "何 何が 何を 何で 何の 何か 何個 何番 何回 何時 誰が 教え 教えて 知り 知りたい 方法 手順 仕方 やり方 使い方 \
    書き方 見方 入れ方 作り方 一覧 種類 違い 違う 理由 原因 意味 説明 場合 時 必要 可能 使う 使っ 使い 使え 使える 使われ 行う 行い \
    言う 言い 出来 出来る 良い 良く 自分 全部 全て 普通 最初 場所 具体 簡単 詳しく 概要 要約 文書 ドキュメント 立ち 立てる 困る";

/// Korean words without their particles.
const KOREAN: &str = "무엇 무엇인 무엇인지 뭐 뭐라고 뭐야 뭐죠 뭐예요 뭐에요 뭐가 뭔가 뭔가요 뭔지 뭘 먼가요 어디 어디에 어디에요 어디서 어디죠 어떤 어느 \
    어떻게 어떡해 어케 언제 누가 누구 얼마 얼마나 몇 며칠 왜 왜요 무슨 무슨뜻 여기 여기서 여기서는 거기 저기 이거 그거 이것 그것 있나 있나요 있어 \
    있어요 있는 있는지 있을까 있을까요 있습니까 있죠 없나 없나요 없어요 없는 되나 되나요 되요 돼요 되죠 되는 되는지 될까 될까요 됩니까 \
    하나요 하는 하는지 하는데 하는법 하고 하게 하면 하려면 하려고 하죠 해요 해야 해야하 할까요 할수 합니까 싶음 싶어 싶어요 싶은데 싶은 싶다 \
    싶습니 알려 알려줘 알려주세요 알려주 가르쳐 보여줘 주세요 바랍니다 방법 법좀 이유 이유가 좀 그냥 혹시 근데 그런데 제가 \
    나는 저는 우리 때 때문에 경우 통해 대해 대한 관한 관련 의미 뜻";

/// Korean words of one syllable that have no meaning of their own in a question.
const KOREAN_PARTICLES: &str = "이그저수것거때좀함법안못더다꼭등및나내네";

/// Pairs of characters, and single ones, that Korean questions are asked with.
pub(crate) const KOREAN_PAIRS: [&str; 15] = [
    "무엇", "엇인", "언제", "어디", "누가", "어떻", "떻게", "왜", "인가", "니까", "나요", "은가", "까요",
    "입니", "습니",
];

/// Returns whether a Chinese, Japanese or Korean word only says that something is asked.
pub(crate) fn is_asked_with_characters(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        CHINESE
            .split_whitespace()
            .chain(JAPANESE.split_whitespace())
            .chain(KOREAN.split_whitespace())
            .collect()
    });
    WORDS.contains(word)
}

/// Returns whether a Chinese character or a Korean syllable means nothing alone in a question.
pub(crate) fn is_particle(letter: &str) -> bool {
    CHINESE_PARTICLES.contains(letter) || KOREAN_PARTICLES.contains(letter)
}

/// Returns the words of a language, separated by spaces.
fn words(language: Language) -> &'static str {
    match language {
        Language::English => ENGLISH,
        Language::Arabic => ARABIC,
        Language::Catalan => CATALAN,
        Language::Czech => CZECH,
        Language::Danish => DANISH,
        Language::Dutch => DUTCH,
        Language::Finnish => FINNISH,
        Language::French => FRENCH,
        Language::German => GERMAN,
        Language::Greek => GREEK,
        Language::Hindi => HINDI,
        Language::Hungarian => HUNGARIAN,
        Language::Indonesian => INDONESIAN,
        Language::Italian => ITALIAN,
        Language::Norwegian => NORWEGIAN,
        Language::Polish => POLISH,
        Language::Portuguese => PORTUGUESE,
        Language::Romanian => ROMANIAN,
        Language::Russian => RUSSIAN,
        Language::Spanish => SPANISH,
        Language::Swedish => SWEDISH,
        Language::Turkish => TURKISH,
        Language::Ukrainian => UKRAINIAN,
    }
}

/// Returns whether a word in lower case only says that something is asked.
pub(crate) fn only_asks(word: &str, language: Language) -> bool {
    languages_asking_with(word) & language.bit() != 0
}

/// Returns the languages in which a word in lower case only says that something is asked, as bits.
pub(crate) fn languages_asking_with(word: &str) -> u32 {
    static LANGUAGES: LazyLock<HashMap<String, u32>> = LazyLock::new(|| {
        let mut languages = HashMap::new();
        for language in Language::ALL {
            let asking = words(language).split_whitespace();
            // `cuanto`, `perche`, `zeby`.
            let typed = accents::are_left_out_in(language).then(|| {
                let stop_words = stop_words::get(language.code()).iter().copied();
                let words = asking.clone().chain(stop_words.filter(|word| !word.is_ascii()));
                words.map(fold)
            });
            for word in asking.map(str::to_owned).chain(typed.into_iter().flatten()) {
                *languages.entry(word).or_default() |= language.bit();
            }
        }
        languages
    });
    LANGUAGES.get(word).copied().unwrap_or_default()
}
