#!/usr/bin/env python3
"""Writes chats.json: chats as text, by transformers' apply_chat_template.

The templates are written here. Some write the formats of known models, in the style in which their templates are written; the
others use one part of Jinja each. Each entry has a template and the text of each chat, null where the template refuses it.
"""

from __future__ import annotations

import datetime
import json
import pathlib

from jinja2.exceptions import TemplateError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

NOW = 1_700_000_000
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
USER = {"role": "user", "content": "Hello, world"}
CHATS = [
    [USER],
    [{"role": "system", "content": "Be brief."}, USER],
    [{"role": "user", "content": " \n spaces <|im_end|> and 1 < 2 €\u00a0\n"}],
    [USER, {"role": "assistant", "content": "Hi.\n</think>\n So"}, {"role": "user", "content": "'Why?'"}],
]

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
# Qwen 2, SmolLM 2
CHATML_WITH_SYSTEM = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a parrot.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# Qwen 3: tools that are not given, a reversed search with a namespace, thoughts that are cut out
CHATML_WITH_THOUGHTS = """\
{%- if tools %}
    {{- tools | map('tojson') | unknown }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.thoughts is defined and message.thoughts is not none %}
            {%- set thoughts = message.thoughts %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set turns = messages[1:] %}{% set system = messages[0]['content'] %}"
    "{% else %}{% set turns = messages %}{% set system = false %}{% endif %}"
    "{% for message in turns %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system != false %}{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{% set turns = messages %}{% for message in turns %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
# Llama 3.2: the date, in a system message that is always there
LLAMA3_WITH_DATE = """\
{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message is taken out. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("turns must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"] + eos_token}}
    {%- endif %}
{%- endfor %}
"""
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
    "{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
GEMMA3 = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}{%- if item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}
    {%- else -%}
        {{ raise_exception("what is this?") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""
# Zephyr, TinyLlama: newlines that are written in the template itself
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
PHI3 = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
    "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
    "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
FORMATS = {
    "chatml": CHATML,
    "chatml_with_system": CHATML_WITH_SYSTEM,
    "chatml_with_thoughts": CHATML_WITH_THOUGHTS,
    "llama2": LLAMA2,
    "llama3": LLAMA3,
    "llama3_with_date": LLAMA3_WITH_DATE,
    "mistral": MISTRAL,
    "gemma": GEMMA,
    "gemma3": GEMMA3,
    "zephyr": ZEPHYR,
    "phi3": PHI3,
}
# One part of the language each, on the first chat.
PARTS = [
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c\n",
    "a {%+ if true %} b {%+ endif +%}\n c",
    "a  {%- if true -%}  b  {%- endif -%}  c\n\n",
    "\n\n{% if true %}\n\nx{% endif %}\n\n\n",
    "  {# a comment #}  \n  b {#- another -#}  c {# {{ not }} #}d",
    "{{ 'a' }}\n{{- 'b' -}}\n {{ 'c' }}\r\nd\r\n",
    "{{ 1 + 2 * 3 - -4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ (1 + 2) * 3 }} {{ 10 - 2 - 3 }}",
    "{{ 1 < 2 and 2 <= 2 and not 3 > 4 }} {{ 1 == 1 }} {{ 1 != 1 }} {{ none }} {{ true or x.y }} {{ 'a' or 'b' }} {{ '' or 'b' }}",
    "{{ 'a' ~ 1 ~ true ~ 'b' }} {{ 'x' 'y' \"z\" }} {{ 'it\\'s \\\\ \\t.' }} {{ \"q\\\"\" }}",
    "{{ 'yes' if 1 in [1, 2] else 'no' }}{{ 'hidden' if false }} {{ 'a' if false else 'b' if false else 'c' }} {{ 'ab' in 'cabd' }} {{ 3 not in [1, 2,] }}",
    "{{ {'a': 1, 'b': {'c': 'd'}}['b'].c }} {{ {'a': 1}.get('x', 5) }} {{ {'a': 1}.get('x') }} {{ 'a' in {'a': 1} }} {{ {}.x is defined }}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for i in range(5) if i % 2 == 0 %}{{ loop.index }}/{{ loop.length }}:{{ i }}{{ loop.revindex }}{{ loop.revindex0 }} {% else %}none{% endfor %}",
    "{% for i in [] %}x{% else %}nothing{% endfor %}{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(3, 9, 2) %}{{ loop.previtem }}{{ i }}{{ loop.nextitem is defined }}{% endfor %}".replace("{{ loop.previtem }}", "{% if not loop.first %}{{ loop.previtem }}{% endif %}"),
    "{% set x = 1 %}{% for i in range(3) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0, found=false) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {{ ns.found }}",
    "{% set text %}in{{ 1 }}side{% endset %}[{{ text | upper }}]",
    "{% macro say(a, b='there', c=none) %}{{ a }} {{ b }}{% if c %} {{ c }}{% endif %};{% endmacro %}{{ say('hi') }}{{ say('hi', 'you') }}{{ say('a', c='z') }}",
    "{{ [1, 2, 3][1:] | length }} {{ [1, 2, 3][:-1] | last }} {{ [1, 2, 3][::-1] | first }} {{ [1, 2, 3][-1] }} {{ [1, 2, 3][5] is defined }} {{ [1, 2, 3, 4][1:3] | join('-') }} {{ [1, 2, 3][2:0:-1] | join }} {{ [1, 2][5:] | length }} {{ [1, 2, 3][-2:] | join }} {{ [1, 2, 3][-9:9] | join }}",
    "{{ '  a b  ' | trim }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\u00a0\u3000a\u2003'.strip() }}|{{ 'abc'.replace('b', 'x') }}|{{ 'abcb' | replace('b', '') }}",
    "{{ 'a,b,,c'.split(',') | join('+') }} {{ ', '.join(['a', 'b']) }} {{ 'Hello' | length }} {{ 'h\u00e9\u20ac' | length }} {{ 'aBc dEf' | upper }} {{ 'aBc dEf'.lower() }} {{ 'aBc dEf' | capitalize }} {{ 'aBc dEf'.title() }}",
    "{{ x | default('d') }} {{ '' | default('d', true) }} {{ '' | default('d') }} {{ 5 | string ~ 'a' }} {{ x is defined }} {{ x is not defined }} {{ x is undefined }} {{ none is none }} {{ 1 is number }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ true is boolean }} {{ false is false }} {{ 1 is true }} {{ 'a' is not string }}",
    "{{ messages[0].nothing is none }} {{ messages[0].content.nothing is defined }} {{ none.x is defined }} {{ not messages[0]['tool_calls'] }} {{ undefined_name == 'a' }} {{ 'a' in undefined_name }}",
    "{% for message in messages %}{% generation %}{{ message.content }}{% endgeneration %}{% endfor %}{{ bos_token is defined and bos_token }}{{ tools is defined }}{{ tools }}",
    "{{ not 1 == 2 }} {{ not true is false }} {{ 1 + 1 == 2 and 'b' == 'b' }} {{ 'a' + 'b' | upper }} {{ -2 + 3 }} {{ ('a' + 'b') | upper }} {{ [1] + [2] | length if false else 4 }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('tool_calls') | list | length }}{{ messages | selectattr('x', 'defined') | list | length }} {{ 'a:b:c'.split(':', 1) | last }} {{ 'b' in ('a', 'b') }} {{ ('x',)[0] }}",
    "{% if false %}a{% elif messages | length > 1 %}b{% elif messages %}c{% else %}d{% endif %}{% if '' or [] or {} or 0 or none %}e{% endif %}",
]
# What transformers cannot do, or phasor refuses though transformers can: no text is compared.
REFUSED = ["{{ messages | tojson }}", "{{ x.y }}", "{{ x }}", "{{ messages | unknown }}", "{{ 1 is unknown }}", "{{ unknown() }}", "{% include 'x' %}", "{{ 1.5 }}", "{% if true %}", "{{ 'a }}", "{{ (1 }}", "{% for x in 5 %}{% endfor %}", "{{ 'a' + 1 }}", "{{ 1 // 0 }}", "{{ a b }}", "{% endif %}", "{{ 1 < 2 < 3 }}", "{% break %}", "{{ 'a'.unknown() }}", "{{ '\\q' }}", "{{ 'é' | upper }}", "{# never ends"]


def tokenizer(template: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), chat_template=template, **SPECIAL)


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return cls.fromtimestamp(NOW, datetime.timezone.utc)


def text(template: str, chat: list[dict[str, str]]) -> str | None:
    try:
        return tokenizer(template).apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    except TemplateError:
        return None


def entry(name: str, template: str, chats: list[list[dict[str, str]]]) -> dict[str, object]:
    return {"name": name, "template": template, "texts": [text(template, chat) for chat in chats]}


def main() -> None:
    chat_template_utils.datetime = FixedTime  # what strftime_now tells
    entries = [entry(name, template, CHATS) for name, template in FORMATS.items()]
    entries += [entry(f"part {number}", template, CHATS[:1]) for number, template in enumerate(PARTS)]
    if any(each["texts"][0] is None for each in entries):
        raise SystemExit("a template refuses the first chat")
    content = {"now": NOW, "special_tokens": SPECIAL, "chats": CHATS, "templates": entries, "refused": REFUSED}
    path = pathlib.Path(__file__).with_name("chats.json")
    path.write_text(json.dumps(content, ensure_ascii=True, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
    print(f"{path.name}: {len(entries)} templates, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
